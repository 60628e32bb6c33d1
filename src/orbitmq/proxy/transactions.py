"""Transactions of producers: their ends, and the questions of brokers about open ones."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orbitmq.net.errors import NetError
from orbitmq.protocol.bodies.heartbeat import HeartbeatData, ProducerData
from orbitmq.protocol.errors import BrokerRefused, Malformed
from orbitmq.protocol.names import UNIQ_KEY
from orbitmq.protocol.records.ids import parse_offset_message_id
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.requests.client import Heartbeat
from orbitmq.protocol.requests.send import SendReply
from orbitmq.protocol.requests.transaction import CheckTransactionState, EndTransaction
from orbitmq.proxy.checks import topic_name
from orbitmq.proxy.clients import Clients
from orbitmq.proxy.cluster import Cluster
from orbitmq.proxy.errors import OK, ProxyRefused
from orbitmq.proxy.messages import received_message
from orbitmq.proxy.options import ProxySettings
from orbitmq.proxy.wire import messaging_pb2 as pb

if TYPE_CHECKING:
    from orbitmq.net.connection import Connection

log = logging.getLogger(__name__)

CLIENT_ID = "rmq-proxy-producer-client"
"""The client id under which brokers know the producers of a proxy."""
COMMIT, ROLL_BACK, UNKNOWN = 8, 12, 0
_RESOLUTIONS = {pb.COMMIT: COMMIT, pb.ROLLBACK: ROLL_BACK}
_MARK = ":"


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A half message, as its broker finds it again.

    The client keeps it as its transaction id. So any proxy can end the transaction, also when the one that
    began it is gone.
    """

    message_id: str
    broker_name: str
    physical_offset: int
    queue_offset: int

    @classmethod
    def of_send(cls, message_id: str, broker_name: str, reply: SendReply) -> OpenTransaction:
        """The transaction that the answer to a send has opened."""
        stored = parse_offset_message_id(reply.msg_id)
        return cls(message_id, broker_name, stored.physical_offset, reply.queue_offset)

    def to_text(self) -> str:
        """The transaction id that the client keeps."""
        return _MARK.join(
            (self.message_id, str(self.physical_offset), str(self.queue_offset), self.broker_name)
        )

    @classmethod
    def from_text(cls, text: str) -> OpenTransaction:
        """Reads a transaction id. Raises ProxyRefused."""
        parts = text.split(_MARK, 3)
        if len(parts) == 4 and all(
            part.isascii() and part.isdigit() and len(part) < 19 for part in parts[1:3]
        ):
            return cls(parts[0], parts[3], int(parts[1]), int(parts[2]))
        raise ProxyRefused(
            pb.INVALID_TRANSACTION_ID, f"no proxy has given out the transaction id {text[:100]!r}"
        )


class Transactions:
    """The call EndTransaction, heartbeats for the producers of transactions, and check-backs."""

    def __init__(self, cluster: Cluster, clients: Clients, settings: ProxySettings) -> None:
        self._most_in_a_heartbeat = settings.transaction_heartbeat_batch_num
        self._cluster = cluster
        self._clients = clients

    async def end(self, request: pb.EndTransactionRequest) -> pb.EndTransactionResponse:
        """Commits or rolls back. Raises ProxyRefused."""
        topic = topic_name(request.topic)
        if not request.message_id:
            raise ProxyRefused(pb.ILLEGAL_MESSAGE_ID, "message id cannot be empty")
        opened = OpenTransaction.from_text(request.transaction_id)
        address = await self._cluster.master(opened.broker_name)
        await self._cluster.send_oneway(
            address,
            EndTransaction(
                topic,
                opened.queue_offset,
                opened.physical_offset,
                _RESOLUTIONS.get(request.resolution, UNKNOWN),
                request.message_id,
                topic,
                request.source == pb.SOURCE_SERVER_CHECK,
                opened.message_id,
            ),
        )
        return pb.EndTransactionResponse(status=OK)

    async def send_heartbeats(self, topics: Iterable[str]) -> None:
        """Names the topics' producers to their brokers, so that these ask this proxy about transactions."""
        by_address: dict[str, list[str]] = {}
        for topic in sorted(topics):
            try:
                if await self._cluster.topic_type(topic) not in ("TRANSACTION", "MIXED"):
                    continue
                route = await self._cluster.route(topic)
            except (ProxyRefused, NetError, BrokerRefused) as error:
                log.debug("no heartbeat for the producers of %s: %s", topic, error)
                continue
            for members in route.brokers.values():
                for address in members.values():
                    by_address.setdefault(address, []).append(topic)
        most = self._most_in_a_heartbeat
        await asyncio.gather(
            *(
                self._heartbeat(address, names[first : first + most])
                for address, names in by_address.items()
                for first in range(0, len(names), most)
            )
        )

    async def _heartbeat(self, address: str, topics: list[str]) -> None:
        beat = HeartbeatData(CLIENT_ID, [ProducerData(topic) for topic in topics])
        try:
            await self._cluster.call(address, Heartbeat(beat))
        except (NetError, BrokerRefused) as error:
            log.warning("no heartbeat to %s for the producers of %d topics: %s", address, len(topics), error)

    def handle_requests(
        self, brokers: Callable[[str], str | None], connection: Connection, commands: list[Command]
    ) -> None:
        """Passes the check-backs among a broker's requests on to producers.

        `brokers` gives the name of a broker by its address, for brokers that do not name themselves.
        """
        for command in commands:
            if command.code != CheckTransactionState.CODE:
                continue
            try:
                asked = CheckTransactionState.from_command(command)
                self._ask(asked, asked.broker_name or brokers(connection.address) or "")
            except Malformed as error:
                log.warning("a check-back of %s cannot be read: %s", connection.address, error)

    def _ask(self, asked: CheckTransactionState, broker_name: str) -> None:
        record = decode_record(bytes(asked.body or b""))
        properties = record.property_map()
        message_id = properties.get(UNIQ_KEY) or record.offset_id
        topic = record.topic
        opened = OpenTransaction(
            message_id, broker_name, asked.commit_log_offset, asked.tran_state_table_offset
        )
        command = pb.TelemetryCommand(
            recover_orphaned_transaction_command=pb.RecoverOrphanedTransactionCommand(
                message=received_message(record, topic, None, 1, 0), transaction_id=opened.to_text()
            )
        )
        if not self._clients.tell_a_producer(topic, command):
            log.info("no producer of %s is here to be asked about transaction %s", topic, message_id)
