"""A broker with transactions over a real store, its clock in the test's hand, and the log to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from orbitmq.broker.transaction.records import Half, op_offsets
from orbitmq.handling.call import Peer, Wait
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.names import HALF_TOPIC, OP_HALF_TOPIC
from orbitmq.protocol.records.message import StoredMessage
from orbitmq.protocol.requests.send import SendReply
from orbitmq.protocol.requests.transaction import CheckTransactionState, EndTransaction
from tests.kit.real_broker import NOW, PEER, RealBroker, message, resumed
from tests.kit.store import crash, read_queue

COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
TIMEOUT = 6_000
INTERVAL = 30_000


class Transacting:
    """`producer` is connected as member of group PG; `asked` gathers what it was asked."""

    def __init__(self, root: Path, **properties: object) -> None:
        self.root = root
        self.properties = properties
        self.now = NOW
        self.number = 0
        self.asked: list[CheckTransactionState] = []
        self.told: list[int] = []
        """Connections that were asked, in order."""
        self.saved: dict[str, str] = {}
        self.open()

    def open(self) -> None:
        self.real = RealBroker(self.root, self.now, self.saved, **self.properties)
        self.broker = self.real.broker
        self.join(PEER)

    def join(self, peer: Peer, group: str = "PG") -> None:
        self.broker.clients.register_producer(group, f"client-{peer.connection_id}", peer, self.now)

    def leave(self, peer: Peer = PEER) -> None:
        self.broker.clients.connection_closed(peer.connection_id)

    # Life.

    def save(self) -> None:
        """Writes the tables to their files, as the server does every few seconds."""
        self.saved = {name: snapshot()() for name, (_, snapshot, _) in self.broker.files.items()}

    def kill(self) -> None:
        """Dies, and starts again with the tables as they were saved last."""
        crash(self.real.store)
        self.open()

    def restart(self) -> None:
        self.broker.stop(self.now)
        self.save()
        self.real.close()
        self.open()

    def close(self) -> None:
        self.real.close()

    # Actions of clients.

    def half(self, properties: str = "", **fields: Any) -> SendReply:
        """Sends a half message."""
        self.number += 1
        text = f"UNIQ_KEY\x01ID{self.number:06d}\x02TRAN_MSG\x01true\x02PGROUP\x01PG\x02TAGS\x01TagA\x02"
        values = {"born_timestamp": self.now, "sys_flag": 4, "body": b"body %d" % self.number, **fields}
        result = self.real.send(self.now, properties=text + properties, **values)
        if isinstance(result, Exception):
            raise result
        reply = resumed(result) if isinstance(result, Wait) else result
        assert isinstance(reply, SendReply)
        return reply

    def request(self, sent: SendReply, decision: int, **fields: Any) -> EndTransaction:
        values: dict[str, Any] = {
            "producer_group": "PG",
            "tran_state_table_offset": sent.queue_offset,
            "commit_log_offset": int(sent.msg_id[-16:], 16),
            "commit_or_rollback": decision,
            "msg_id": sent.transaction_id,
            "transaction_id": sent.transaction_id,
        }
        return EndTransaction(**{**values, **fields})

    def answer(self, check: CheckTransactionState, decision: int, **fields: Any) -> EndTransaction:
        """A producer's answer to a question."""
        values: dict[str, Any] = {
            "producer_group": "PG",
            "tran_state_table_offset": check.tran_state_table_offset,
            "commit_log_offset": check.commit_log_offset,
            "commit_or_rollback": decision,
            "msg_id": check.msg_id,
            "transaction_id": check.transaction_id,
            "from_transaction_check": True,
        }
        return EndTransaction(**{**values, **fields})

    def end(self, request: EndTransaction) -> Any:
        """The broker's answer to it; a wait, a refusal is raised."""
        return self.real.handle(request, self.now)

    def decide(self, sent: SendReply, decision: int, **fields: Any) -> Any:
        return self.end(self.request(sent, decision, **fields))

    def refusal(self, request: EndTransaction) -> Refused:
        try:
            said = self.end(request)
        except Refused as refused:
            return refused
        raise AssertionError(f"accepted: {said}")

    # Time.

    def pass_ms(self, ms: int) -> None:
        """Lets time pass, the checker ticking every second; questions arrive at once."""
        end = self.now + ms
        while self.now < end:
            self.now = min(end, self.now + 1000)
            self.tick()

    def tick(self) -> None:
        while self.broker.check_back.tick(self.now):
            pass
        for connection_id, request in self.broker.outbox.drain():
            if isinstance(request, CheckTransactionState):
                self.asked.append(request)
                self.told.append(connection_id)

    # Content of the log.

    def published(self, topic: str = "TopicTest") -> list[StoredMessage]:
        return [one for queue_id in range(4) for one in read_queue(self.real.store, topic, queue_id)]

    def bodies(self, topic: str = "TopicTest") -> list[bytes]:
        return [one.body for one in self.published(topic)]

    def halves(self) -> list[StoredMessage]:
        return read_queue(self.real.store, HALF_TOPIC)

    def open_halves(self) -> list[Half]:
        transactions = self.broker.transactions
        found = []
        at = 0
        while (offset := transactions.window.next_open(at, transactions.end)) is not None:
            half = transactions.half(offset)
            assert half is not None
            found.append(half)
            at = offset + 1
        return found

    def ops(self) -> list[list[int]]:
        return [op_offsets(one.body) for one in read_queue(self.real.store, OP_HALF_TOPIC)]

    def offset(self, topic: str = HALF_TOPIC) -> int:
        return self.broker.offsets.get("CID_RMQ_SYS_TRANS", topic, 0)


__all__ = ["COMMIT", "INTERVAL", "NOW", "ROLLBACK", "TIMEOUT", "UNKNOWN", "Transacting", "message", "resumed"]
