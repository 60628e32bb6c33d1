"""Offsets of the members of broadcasting groups, kept from their pulls for a while.

Members keep their offsets themselves. The members remembered here let one go on that comes through a proxy in
place of its own connection, or the reverse; the smallest of a group's is stored under `group@broadcast`, for
members that are unknown here (enableBroadcastOffsetStore).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from orbitmq.broker.client.clients import ClientTable
from orbitmq.broker.offset.offsets import OffsetTable
from orbitmq.broker.pull.options import PullOptions
from orbitmq.handling.call import Outcome, Result, Wait
from orbitmq.protocol.bodies.heartbeat import ConsumeType
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.requests.pull import LitePullMessage, PullMessage, PullReply
from orbitmq.store import MessageStore
from orbitmq.store.log.messages import Cold

PROXY_FOR_BROADCAST = 1
"""A proxy that forwards the pulls of a broadcasting member says so in `requestSource`."""
MAX_MEMBERS = 100_000
"""Members that are remembered, each with each of its groups and topics; who comes beyond them is not."""


@dataclass(slots=True)
class _Member:
    by_proxy: bool
    seen_ms: int
    offsets: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class Puller:
    """A member of a broadcasting group that pulls."""

    client_id: str
    by_proxy: bool


class BroadcastOffsets:
    """The members of broadcasting groups by group and topic."""

    def __init__(
        self, settings: PullOptions, clients: ClientTable, offsets: OffsetTable, store: MessageStore
    ) -> None:
        self._settings = settings
        self._clients = clients
        self._offsets = offsets
        self._store = store
        self._members: dict[tuple[str, str], dict[str, _Member]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._members.values()))

    def remembers(self, request: PullMessage | LitePullMessage, connection_id: int) -> bool:
        """True if it matters which member of its group sends a pull."""
        if not self._settings.enable_broadcast_offset_store:
            return False
        if request.request_source == PROXY_FOR_BROADCAST:
            return True
        group = self._clients.consumers.get(request.consumer_group)
        member = None if group is None else group.members.get(connection_id)
        return (
            member is not None
            and member.is_broadcasting
            and member.consume_type is not ConsumeType.CONSUME_ACTIVELY
        )

    def puller(self, request: PullMessage | LitePullMessage, connection_id: int) -> Puller | None:
        """The member that pulls, if it is one of a broadcasting group and such are remembered."""
        if not self.remembers(request, connection_id):
            return None
        if request.request_source == PROXY_FOR_BROADCAST:
            return Puller(request.proxy_froward_client_id or "", True)
        client = self._clients.consumers[request.consumer_group].members[connection_id]
        return Puller(client.client_id, False)

    def start_offset(self, puller: Puller, request: PullMessage | LitePullMessage) -> int | None:
        """Offset for a member that connected otherwise before, or asks for its first one; else None."""
        known = self._known(puller, request)
        if known is None or known >= 0:
            return known
        topic, queue_id = request.topic, request.queue_id
        young = self._store.is_in_memory(topic, queue_id, 0)
        return 0 if young else max(0, self._store.max_offset(topic, queue_id))

    def cold_first(self, puller: Puller, request: PullMessage | LitePullMessage) -> Cold | None:
        """The range of the disk that `start_offset` would wait for."""
        if self._known(puller, request) != -1:
            return None
        return self._store.reader.cold_unit(request.topic, request.queue_id, 0)

    def _known(self, puller: Puller, request: PullMessage | LitePullMessage) -> int | None:
        """The known offset of a member that is sent somewhere; -1: none; None: it is not sent."""
        group, topic, queue_id = request.consumer_group, request.topic, request.queue_id
        asks = puller.by_proxy and request.queue_offset < 0
        member = self._members.get((group, topic), {}).get(puller.client_id)
        if not asks and (member is None or member.by_proxy is puller.by_proxy):
            return None
        known = -1 if member is None else member.offsets.get(queue_id, -1)
        if known < 0:
            known = self._offsets.get(f"{group}@broadcast", topic, queue_id)
        return max(known, -1)

    def pulled(
        self, puller: Puller, request: PullMessage | LitePullMessage, queue_offset: int, now: int
    ) -> None:
        """Notes where a member is on a queue."""
        key = (request.consumer_group, request.topic)
        members = self._members.get(key)
        member = None if members is None else members.get(puller.client_id)
        if member is None:
            if len(self) >= MAX_MEMBERS:
                return
            member = _Member(puller.by_proxy, now)
            self._members.setdefault(key, {})[puller.client_id] = member
        member.by_proxy = puller.by_proxy
        member.seen_ms = now
        member.offsets[request.queue_id] = max(queue_offset, member.offsets.get(request.queue_id, 0))

    def noted(
        self, puller: Puller, request: PullMessage | LitePullMessage, result: Result, now: int
    ) -> Result:
        """`result` of a member's pull, noted when it is there."""
        if isinstance(result, Wait):
            then = result.then

            def later_noted(outcome: Outcome, later: int) -> Result:
                ended = then(outcome, later)
                assert not isinstance(ended, bytes), "pulls of broadcasting members are answered as replies"
                return self.noted(puller, request, ended, later)

            return Wait(result.on, result.deadline, later_noted, result.any_of)
        if isinstance(result, PullReply):
            moved = result.code == ResponseCode.PULL_OFFSET_MOVED
            self.pulled(puller, request, result.next_begin_offset if moved else request.queue_offset, now)
        return result

    def scan(self, now: int) -> None:
        """Stores the smallest offsets of each group, and forgets who did not pull for long. Every 5 s."""
        usual_ms = self._settings.broadcast_offset_expire_second * 1000
        longest_ms = self._settings.broadcast_offset_expire_max_second * 1000
        for (group, topic), members in list(self._members.items()):
            smallest: dict[int, int] = {}
            consumers = self._clients.consumers.get(group)
            for client_id, member in list(members.items()):
                silent_ms = now - member.seen_ms
                online = consumers is not None and consumers.find_client(client_id) is not None
                if online or silent_ms < usual_ms:
                    for queue_id, offset in member.offsets.items():
                        smallest[queue_id] = min(offset, smallest.get(queue_id, offset))
                if silent_ms >= (longest_ms if online else usual_ms):
                    del members[client_id]
            if not members:
                del self._members[group, topic]
            for queue_id, offset in smallest.items():
                self._offsets.commit(f"{group}@broadcast", topic, queue_id, offset, now)
