"""Several instances: records in the queues of the sources, by which all of them reach the same state.

Orders and records have one order in each queue, and every instance reads both. The holder of the lease claims
a batch before it sends it: it writes the claim into the queues that its messages came from, and sends those
that are still pending once it has read the claim back. So all instances agree if an order came in time. Each
holder has a higher term than the one before it. It begins its term in a queue by a record, after which
records of lower terms count for nothing there: a holder delivers nothing before it has read past the last
answer of the one before.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import msgspec

from orbitmq.delay_service.errors import NotSchedulable
from orbitmq.delay_service.rules.delivery import Delivery, Outgoing, Result, Sent
from orbitmq.delay_service.rules.lanes import Lane, Lanes
from orbitmq.delay_service.store import keys
from orbitmq.delay_service.store.store import Changes, DelayStore

RECORD = "delay.record"
"""The control property of records."""
PROOF_BYTES = 16
QUEUE_PREFIX = "queue "
Place = tuple[int, int, int]
"""Due time, offset and kind of a pending message of one queue and one target."""


class Begin(msgspec.Struct, array_like=True, frozen=True, tag="begin"):
    """A term begins."""

    term: int


class Claim(msgspec.Struct, array_like=True, frozen=True, tag="claim"):
    """Messages are to be sent."""

    term: int
    number: int
    """Tells the claims of a term apart."""
    queue: str
    """The queue that the messages came from."""
    target: str
    now: int
    """Time (ms) of the claim, by which repetitions and expiry are decided."""
    places: list[Place]


class Fate(msgspec.Struct, array_like=True, frozen=True):
    """The fate of one message."""

    place: Place
    result: Result
    reason: str = ""


class Done(msgspec.Struct, array_like=True, frozen=True, tag="done"):
    """Fates of messages that were claimed."""

    term: int
    queue: str
    target: str
    now: int
    fates: list[Fate]


Record = Begin | Claim | Done
_encode = msgspec.msgpack.Encoder().encode
_decode: Callable[[bytes], Record] = msgspec.msgpack.Decoder(Record).decode


class Sharing:
    """Applies records. `secret` is known to the instances alone."""

    def __init__(self, store: DelayStore, lanes: Lanes, delivery: Delivery) -> None:
        self.secret = b""
        self.on_begun: Callable[[str, int], None] | None = None
        """Is told the queue and the number of each term that begins."""
        self.on_claimed: Callable[[Claim, list[Outgoing]], None] | None = None
        """Is told the messages that a claim holds."""
        self._store = store
        self._lanes = lanes
        self._delivery = delivery
        self._terms: dict[int, int] = {}
        self._take_over_claims()

    def _take_over_claims(self) -> None:
        """Claims as a service without other instances keeps them become claims of messages, one by one."""
        changes = self._store.changes()
        for lane in self._lanes:
            if lane.may_be_sent:
                end = lane.may_be_sent + b"\0"
                found = self._store.items(keys.lane_start(lane.number), end)
                lane.on_the_way.update(key for key, _ in found)
                lane.may_be_sent = b""
                changes.delete(keys.claim_key(lane.number))
                self._keep_claims(lane, changes)
        if changes:
            self._store.write(changes)

    def body(self, queue: str, record: Record) -> bytes:
        """The body of a record for a queue, with the proof that an instance wrote it."""
        data = _encode(record)
        return self._proof(queue, data) + data

    def _proof(self, queue: str, data: bytes) -> bytes:
        return blake2b(queue.encode() + b"\0" + data, key=self.secret, digest_size=PROOF_BYTES).digest()

    def read(self, queue: str, body: bytes) -> Record:
        """The record of a body. Raises NotSchedulable if no instance of this service wrote it."""
        proof, data = body[:PROOF_BYTES], body[PROOF_BYTES:]
        if not hmac.compare_digest(proof, self._proof(queue, data)):
            raise NotSchedulable(f"{RECORD}: it is not of this service: only its instances write records")
        try:
            return _decode(data)
        except msgspec.MsgspecError as error:
            raise NotSchedulable(f"{RECORD}: a record of another release: {error}") from None

    def term(self, source: int) -> int:
        found = self._terms.get(source)
        if found is None:
            value = self._store.get(keys.term_key(source))
            found = self._terms[source] = 0 if value is None else int.from_bytes(value, "big")
        return found

    def apply(self, queue: str, source: int, record: Record, changes: Changes) -> Callable[[], None]:
        """Carries a record out, with the queue's position in `changes`; to be called after the write."""
        before = self.term(source)
        if record.term < before:
            return _nothing
        if record.term > before:
            self._terms[source] = record.term
            changes.put(keys.term_key(source), record.term.to_bytes(8, "big"))
        if isinstance(record, Begin):
            return lambda: self._begun(queue, record.term)
        number = self._store.number(f"lane {record.target}")
        source_of_places = self._store.number(QUEUE_PREFIX + record.queue)
        if number is None or source_of_places is None:
            return (lambda: self._claimed(record, [])) if isinstance(record, Claim) else _nothing
        lane = self._lanes.get(number)
        if isinstance(record, Claim):
            wanted = [_key(lane, source_of_places, place) for place in record.places]
            claimed, added = self._delivery.claim(lane, wanted, record.now, changes)
            after: Callable[[], None] = lambda: self._claimed(record, claimed)  # noqa: E731
        else:
            fates = {
                _key(lane, source_of_places, one.place): Sent(one.result, one.reason) for one in record.fates
            }
            added = self._delivery.settle(lane, fates, record.now, changes)
            after = _nothing
        self._keep_claims(lane, changes)

        def written() -> None:
            for key in added:
                self._lanes.added(key)
            self._lanes.changed(lane)
            after()

        return written

    def _begun(self, queue: str, term: int) -> None:
        if self.on_begun is not None:
            self.on_begun(queue, term)

    def _claimed(self, claim: Claim, claimed: list[Outgoing]) -> None:
        if self.on_claimed is not None:
            self.on_claimed(claim, claimed)

    def _keep_claims(self, lane: Lane, changes: Changes) -> None:
        key = keys.held_key(lane.number)
        if lane.on_the_way:
            changes.put(key, b"".join(sorted(lane.on_the_way)))
        else:
            changes.delete(key)


def _nothing() -> None:
    """The record counts for nothing."""


def _key(lane: Lane, source: int, place: Place) -> bytes:
    due, offset, kind = place
    return keys.pending_key(lane.number, due, source, offset, kind)


@dataclass(slots=True, eq=False)
class Batch:
    """Messages that the holder wants to send; they leave once every claim of theirs has been read back."""

    lane: Lane
    keys: list[bytes]
    writes: list[tuple[int, str, bytes]]
    """Claims to be written: number, queue, body."""
    open: set[int]
    """Numbers of claims that are neither read back nor failed."""
    messages: list[Outgoing]
    on_ready: Callable[[], None] | None = None
    """Is called once no claim is open."""


class Holder:
    """The decisions of the instance that delivers. It does nothing outside of a term."""

    def __init__(self, store: DelayStore, lanes: Lanes, delivery: Delivery, sharing: Sharing) -> None:
        self._store = store
        self._lanes = lanes
        self._delivery = delivery
        self._sharing = sharing
        self._batches: dict[int, Batch] = {}
        self._numbers = 0
        self.term = 0
        """0: this instance does not hold the lease."""
        self.begun: set[str] = set()
        """Queues in which the term has begun."""
        self._taken_over: set[str] = set()
        self.present: set[str] = set()
        """Queues that the sources have at present."""
        sharing.on_begun = self._begun
        sharing.on_claimed = self._claimed

    def lead(self, term: int) -> None:
        self.step_down()
        self.term = term
        for lane in self._lanes:
            lane.unsent.clear()
            lane.busy = False
            lane.paused_until = 0
            lane.head = None  # It may be past messages whose claims the end of the last term prevented.
            self._lanes.find_head(lane)

    def step_down(self) -> None:
        self.term = 0
        self.begun.clear()
        self._taken_over.clear()
        self._batches.clear()

    def begin(self, queue: str) -> bytes:
        """The body of the record by which the term begins in a queue."""
        return self._sharing.body(queue, Begin(self.term))

    def _begun(self, queue: str, term: int) -> None:
        """Everything that the holders before have claimed and settled in this queue is known now: what they
        claimed and may have sent is sent again.
        """
        if term != self.term:
            return
        self.begun.add(queue)
        if queue in self._taken_over:
            return
        self._taken_over.add(queue)
        for lane in self._lanes:
            left = {key for key in lane.on_the_way if self.carrier(self._queue(keys.source_of(key))) == queue}
            if left:
                lane.unsent |= left
                self._lanes.changed(lane)

    def carrier(self, queue: str) -> str:
        """The queue that takes the records about messages of a queue; empty while there is none.

        A queue that its topic has lost is represented by the first one of the topic.
        """
        if queue in self.begun:
            return queue
        if queue in self.present:
            return ""
        topic = queue.rpartition("/")[0] + "/"
        return min((one for one in self.begun if one.startswith(topic)), default="")

    def take(self, lane: Lane, now: int, most: int | None = None) -> Batch | None:
        """The next messages for a target; None if there is nothing at present. The lane is then busy."""
        if lane.unsent:
            batch = self._unsent(lane)
            if batch is not None:
                return batch
        carriers: dict[int, str] = {}

        def can_be_claimed(key: bytes) -> bool:
            source = keys.source_of(key)
            if source not in carriers:
                carriers[source] = self.carrier(self._queue(source))
            return bool(carriers[source])

        chosen = self._delivery.choose(lane, now, can_be_claimed, most)
        if not chosen:
            return None
        lane.busy = True
        by_source: dict[int, list[Place]] = {}
        for key in chosen:
            _, due, source, offset, kind = keys.read_pending_key(key)
            by_source.setdefault(source, []).append((due, offset, kind))
        batch = Batch(lane, chosen, [], set(), [])
        for source, places in by_source.items():
            self._numbers += 1
            number, carrier = self._numbers, carriers[source]
            claim = Claim(self.term, number, self._queue(source), str(lane.target), now, places)
            batch.writes.append((number, carrier, self._sharing.body(carrier, claim)))
            batch.open.add(number)
            self._batches[number] = batch
        return batch

    def _queue(self, source: int) -> str:
        return self._store.text(source).removeprefix(QUEUE_PREFIX)

    def _unsent(self, lane: Lane) -> Batch | None:
        """Messages that are claimed already."""
        chosen = sorted(lane.unsent)[: self._delivery.batch_messages]
        lane.unsent.difference_update(chosen)
        values = self._store.get_many(chosen)
        messages = [
            Outgoing(key, self._store.read_pending(value), True)
            for key, value in zip(chosen, values, strict=True)
            if value is not None and key in lane.on_the_way
        ]
        if not messages:
            return None
        lane.busy = True
        return Batch(lane, chosen, [], set(), messages)

    def _claimed(self, claim: Claim, claimed: list[Outgoing]) -> None:
        if claim.term != self.term:
            return
        batch = self._batches.pop(claim.number, None)
        if batch is not None:
            batch.messages += claimed
            self._closed(batch, claim.number)
        elif claimed:
            # Its write seemed to have failed, or a start lies between: they are to be sent all the same.
            lane = self._lanes.get(keys.lane_of(claimed[0].key))
            lane.unsent.update(one.key for one in claimed)
            self._lanes.changed(lane)

    def failed(self, batch: Batch, number: int, queue: str) -> None:
        """A claim could not be written. Its queue has to begin again."""
        self.begun.discard(queue)
        if self._batches.pop(number, None) is not None:
            self._closed(batch, number)

    def give_up(self) -> None:
        """Claims that are not read back yet count as failed."""
        for number, batch in list(self._batches.items()):
            del self._batches[number]
            self._closed(batch, number)

    def _closed(self, batch: Batch, number: int) -> None:
        batch.open.discard(number)
        if not batch.open and batch.on_ready is not None:
            batch.on_ready()

    def claimed(self, batch: Batch, now: int) -> list[Outgoing]:
        """The messages of a batch whose claims are closed, in the order of their times; the lane is free if
        there are none.
        """
        lane = batch.lane
        batch.messages.sort(key=lambda one: one.key)
        lane.tokens -= len(batch.messages)
        self._delivery.put_back(lane, [key for key in batch.keys if key not in lane.on_the_way])
        if len(batch.messages) < len(batch.keys) and not self._all_begun(batch):
            lane.failed("the claims could not be written to the source", now)
        if not batch.messages:
            lane.busy = False
            self._lanes.changed(lane)
        return batch.messages

    def _all_begun(self, batch: Batch) -> bool:
        return all(queue in self.begun for _, queue, _ in batch.writes)

    def sent(
        self, lane: Lane, batch: Sequence[Outgoing], results: Sequence[Sent], now: int
    ) -> tuple[list[Outgoing], list[tuple[str, bytes]]]:
        """The messages to be sent again, and the records to be written: queue, body.

        The lane is free if none is to be sent again.
        """
        again, settled = self._delivery.fates(lane, batch, results, now)
        by_source: dict[int, list[Fate]] = {}
        for one, fate in settled:
            _, due, source, offset, kind = keys.read_pending_key(one.key)
            by_source.setdefault(source, []).append(Fate((due, offset, kind), fate.result, fate.reason))
        lane.busy = bool(again)
        self._lanes.changed(lane)
        return again, list(self._done(lane, by_source, now))

    def _done(self, lane: Lane, by_source: dict[int, list[Fate]], now: int) -> Iterator[tuple[str, bytes]]:
        for source, fates in by_source.items():
            queue = self._queue(source)
            carrier = self.carrier(queue) or queue
            record = Done(self.term, queue, str(lane.target), now, fates)
            yield carrier, self._sharing.body(carrier, record)
