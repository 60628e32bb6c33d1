"""Transfers between accounts, each made once, however often its message is delivered.

    python examples/payments.py open --accounts 10     # tables, and accounts with 1000 each
    python examples/payments.py worker                 # makes transfers until it is stopped: start several
    python examples/payments.py send --transfers 100   # each three times
    python examples/payments.py check                  # each balance is its opening plus its transfers
    orbitmq outbox relay --database sqlite:///payments.db     # sends a receipt for each transfer

DATABASE is SQLAlchemy's URL, for example postgresql+psycopg://shop@127.0.0.1/shop; without it the database is
the file payments.db. `worker --without-once` shows how it goes wrong.
"""

import argparse
import json
import os
import random
import sys

from sqlalchemy import Column, Integer, MetaData, String, Table, create_engine, func, insert, select, update
from sqlalchemy.orm import Session, sessionmaker

import orbitmq.sync as orbitmq
from orbitmq import FIRST_OFFSET, DeadLetterPolicy, Message, ReceivedMessage
from orbitmq.idempotence import SqlAlchemyStore, once
from orbitmq.outbox import Outbox

TOPIC = os.environ.get("TOPIC", "transfers")
RECEIPTS = f"{TOPIC}-receipts"
GROUP = os.environ.get("GROUP", "payments")
OPENING = 1000

engine = create_engine(os.environ.get("DATABASE", "sqlite:///payments.db"))
sessions = sessionmaker(engine)
metadata = MetaData()
accounts = Table(
    "accounts",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("opening", Integer, nullable=False),
    Column("balance", Integer, nullable=False),
    Column("closed", Integer, nullable=False, default=0),
)
transfers = Table(
    "transfers",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", String(40), nullable=False, index=True),
    Column("source", Integer, nullable=False),
    Column("target", Integer, nullable=False),
    Column("amount", Integer, nullable=False),
)
store = SqlAlchemyStore(sessions)
outbox = Outbox()


class AccountClosed(Exception):
    """No transfer can be made now: the message comes again, and at last becomes a dead letter."""


def make(message: ReceivedMessage, session: Session) -> None:
    """Makes a transfer, in a transaction that others begin and commit."""
    wanted = json.loads(message.body)
    ends = [wanted["source"], wanted["target"]]
    # Always in the same order, so that two transfers do not wait for each other.
    found = session.execute(
        select(accounts).where(accounts.c.id.in_(ends)).order_by(accounts.c.id).with_for_update()
    )
    if any(account.closed for account in found):
        raise AccountClosed(f"transfer {wanted['id']}")
    session.execute(insert(transfers).values(wanted))
    for account, amount in zip(ends, (-wanted["amount"], wanted["amount"]), strict=True):
        moved = accounts.c.balance + amount
        session.execute(update(accounts).where(accounts.c.id == account).values(balance=moved))
    # In the same transaction: a receipt is sent if, and only if, the transfer was made.
    outbox.add(session, Message(RECEIPTS, json.dumps({"id": wanted["id"]}), sharding_key=wanted["id"]))


@once(store, key="transferId", name="transfer")
def transfer(message: ReceivedMessage, session: Session) -> None:
    """Makes a transfer once: its key and its rows are one transaction."""
    make(message, session)


def transfer_without_once(message: ReceivedMessage) -> None:
    """Makes a transfer as often as its message is delivered."""
    with sessions.begin() as session:
        make(message, session)


def open_accounts(count: int) -> None:
    """Makes the tables and the accounts. Real programs have migrations for that."""
    if engine.dialect.name == "sqlite":
        with engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA journal_mode = WAL")  # readers do not hold up the writer
    metadata.create_all(engine)
    store.create_table()
    rows = [{"id": number, "opening": OPENING, "balance": OPENING} for number in range(count)]
    with engine.begin() as connection:
        outbox.create_tables(connection)
        connection.execute(insert(accounts), rows)


def work(with_once: bool) -> int:
    """Makes transfers until it is stopped."""
    consumer = orbitmq.PushConsumer(
        GROUP,
        consume_from_where=FIRST_OFFSET,
        concurrency=4,
        persist_consumer_offset_interval_ms=1000,
        dead_letter_policy=DeadLetterPolicy(max_attempts=2, delay_levels=(1,)),
    )
    consumer.subscribe(TOPIC, "*", transfer if with_once else transfer_without_once)
    return orbitmq.run(consumer)


def messages_of(first: int, count: int, account_count: int, seed: int) -> list[Message]:
    """Messages of transfers, each three times, shuffled."""
    chance = random.Random(seed)
    messages = []
    for number in range(first, first + count):
        source, target = chance.sample(range(account_count), 2)
        body = {"id": f"t{number}", "source": source, "target": target, "amount": chance.randint(1, 50)}
        messages += [
            Message(TOPIC, json.dumps(body), properties={"transferId": f"t{number}"}) for _ in range(3)
        ]
    chance.shuffle(messages)
    return messages


def send(first: int, count: int) -> None:
    """Sends transfers, each three times."""
    with engine.connect() as connection:
        account_count = connection.execute(select(func.count()).select_from(accounts)).scalar_one()
    with orbitmq.Producer("shop") as producer:
        for message in messages_of(first, count, account_count, first):
            producer.send(message)


def check() -> int:
    """Prints every account whose balance is not its opening plus its transfers, each once."""
    with engine.connect() as connection:
        made = connection.execute(select(transfers)).all()
        known = connection.execute(select(accounts).order_by(accounts.c.id)).all()
    balances = {account.id: account.opening for account in known}
    for one in {row.id: row for row in made}.values():
        balances[one.source] -= one.amount
        balances[one.target] += one.amount
    wrong = [account for account in known if account.balance != balances[account.id]]
    for account in wrong:
        print(f"account {account.id} has {account.balance}, not {balances[account.id]}")
    print(f"{len(made)} transfers made, {len({row.id for row in made})} of them wanted")
    return 1 if wrong else 0


def main() -> int:
    """Does what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("open").add_argument("--accounts", type=int, default=10)
    commands.add_parser("worker").add_argument("--without-once", action="store_true")
    sending = commands.add_parser("send")
    sending.add_argument("--transfers", type=int, default=100)
    sending.add_argument("--first", type=int, default=0)
    commands.add_parser("check")
    asked = parser.parse_args()
    if asked.command == "open":
        open_accounts(asked.accounts)
    elif asked.command == "send":
        send(asked.first, asked.transfers)
    elif asked.command == "worker":
        return work(not asked.without_once)
    else:
        return check()
    return 0


if __name__ == "__main__":
    sys.exit(main())
