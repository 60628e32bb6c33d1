import asyncio
import sqlite3
from contextlib import closing

from orbitmq import Message, ReceivedMessage, SendResult, TransactionProducer, TransactionState

DATABASE = "shop.db"


def pay(sent: SendResult) -> TransactionState:
    with closing(sqlite3.connect(DATABASE)) as database, database:
        database.execute("INSERT INTO payment (transaction_id) VALUES (?)", (sent.transaction_id,))
    return TransactionState.COMMIT


def what_became_of(message: ReceivedMessage) -> TransactionState:
    with closing(sqlite3.connect(DATABASE)) as database:
        paid = database.execute(
            "SELECT 1 FROM payment WHERE transaction_id = ?", (message.message_id,)
        ).fetchone()
    return TransactionState.COMMIT if paid else TransactionState.ROLLBACK


async def main() -> None:
    with closing(sqlite3.connect(DATABASE)) as database:
        database.execute("CREATE TABLE IF NOT EXISTS payment (transaction_id TEXT PRIMARY KEY)")
    async with TransactionProducer("shop", check=what_became_of) as producer:
        result = await producer.send_in_transaction(Message("payments", b"order 17", keys="order-17"), pay)
        print(f"order 17: {result.state.name}, {'published' if result.is_confirmed else 'asked about later'}")


asyncio.run(main())
