"""State of a stream on the driver: the ends of its queues, and queues that came and went."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Set
from dataclasses import KW_ONLY, dataclass

from orbitmq.plurals import counted
from orbitmq.spark.errors import BadOption, DataLost, SparkSourceError
from orbitmq.spark.read.cluster import Bounds, Cluster
from orbitmq.spark.read.options import ReadOptions
from orbitmq.spark.read.planning import OffsetRange, Queue, split
from orbitmq.spark.read.positions import EARLIEST, LATEST, QueueOffsets, flat, nested
from orbitmq.spark.read.selecting import first_offsets, selected_queues
from orbitmq.spark.stream.admission import Pace, shared_out
from orbitmq.spark.stream.discovery import ABSENCE_LIMIT_MS, PAUSE_S, Name, View, Watch

IDLE_MS = 100.0
"""Brokers are asked no more often than this while nothing new comes."""
GONE_MS = 5_000.0
"""A queue that its registered broker does not list for so long is gone."""

Offsets = dict[Name, int]


@dataclass(eq=False, repr=False)
class Follower:
    """Decides the offsets of micro-batches.

    A broker that is away holds its own queues back, not the others: its offsets stay where they are until it
    is there again. A queue that its broker no longer has is data loss, unless `failOnDataLoss=false`.
    """

    _options: ReadOptions
    _cluster: Cluster
    _: KW_ONLY
    clock_ms: Callable[[], float] = lambda: time.monotonic() * 1000
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        self._watch = Watch(self._options, self._cluster, self.clock_ms, self.sleep)
        self._pace = Pace(self._options.min_offsets_per_trigger, self._options.max_trigger_delay_ms)
        self._initial: Offsets | None = None
        self._target: Offsets | None = None
        self._ends: Offsets = {}
        """The end of every queue as last seen."""
        self._looked_ms: float | None = None
        self._found_nothing = False
        self._expression_checked = False
        self._brokers_checked = False
        self._missed: dict[Name, float] = {}
        self.lost: Offsets = {}
        """Messages of each queue that were there and can no longer be read, as far as this stream knows."""
        self._counted: set[str] = set()

    def close(self) -> None:
        self._cluster.close()

    # ---- where a new query begins ----

    def initial(self) -> QueueOffsets:
        """The first offsets of a new query; the same however often it is asked.

        Raises BadOption, DataLost, SparkSourceError, NetError, BrokerRefused.
        """
        if self._initial is None:
            options = self._options
            try:
                queues = selected_queues(self._cluster, options)
            except BadOption:
                if options.pattern is None:
                    raise
                queues = []  # A topic that matches may come.
            self._check_expression(queues)
            bounds = self._cluster.bounds(queues)
            self._initial = {
                (queue.topic, queue.key): self._within(queue, start, bounds)
                for queue, start in first_offsets(self._cluster, bounds, options).items()
            }
        return nested(self._initial)

    def _within(self, queue: Queue, start: int, bounds: Bounds) -> int:
        low, high = bounds[queue]
        start = {EARLIEST: low, LATEST: high}.get(start, start)
        if not low <= start <= high and self._options.fail_on_data_loss:
            raise DataLost(
                f"{queue.topic} {queue.key}: startingOffsets begin at {start}, but the queue has offsets "
                f"{low} to {high}; failOnDataLoss=false begins at the nearest"
            )
        return min(max(start, low), high)

    def _check_expression(self, queues: list[Queue]) -> None:
        options = self._options
        if options.sql is not None and queues and not self._expression_checked:
            self._expression_checked = True
            self._cluster.check_expression(
                queues[0], options.subscription, options.expression_type, options.group
            )

    # ---- how far a micro-batch goes ----

    def aim(self) -> None:
        """For available-now: nothing beyond what is there now will be read."""
        view = self._watch.look(complete=True)
        self._target = {name: high for name, (_, _, high) in view.bounds.items()}

    def latest(self, start: QueueOffsets, limit: int | None, *, at_once: bool) -> QueueOffsets:
        """The end of the next micro-batch; `start` itself if there is nothing to do now.

        `at_once`: minOffsetsPerTrigger does not count. Raises BadOption for a checkpoint of other topics,
        DataLost, SparkSourceError.
        """
        known = flat(start)
        self._check_checkpoint(known)
        self._pause_if_idle()
        view = self._watch.look()
        self._check_brokers(known, view)
        ends, shrunk = self._ends_of(known, view)
        if self._target is None:
            self._ends = dict(ends)
        else:
            ends = {
                name: min(high, self._target[name]) for name, high in ends.items() if name in self._target
            }
            self._ends = {**known, **ends}
        waiting = {name: high - known.get(name, 0) for name, high in ends.items()}
        waiting = {name: size for name, size in waiting.items() if size > 0}
        total = sum(waiting.values())
        if not shrunk and (
            not total or (not at_once and self._target is None and self._pace.waits(total, self.clock_ms()))
        ):
            self._found_nothing = True
            return nested(known)
        self._found_nothing = False
        taken = waiting if limit is None else shared_out(waiting, limit)
        moved = {name: known.get(name, 0) + size for name, size in taken.items() if size > 0}
        return nested({**known, **shrunk, **moved})

    def ends(self) -> QueueOffsets:
        """The end of every queue, as it was seen last."""
        return nested(self._ends)

    def _pause_if_idle(self) -> None:
        """Spark asks again at once while there is nothing; brokers have better things to do."""
        now = self.clock_ms()
        if self._found_nothing and self._looked_ms is not None and now - self._looked_ms < IDLE_MS:
            self.sleep((IDLE_MS - (now - self._looked_ms)) / 1000)
        self._looked_ms = self.clock_ms()

    def _ends_of(self, known: Offsets, view: View) -> tuple[Offsets, Offsets]:
        """The ends of queues, and the offsets at which those continue that end before what was read."""
        ends: Offsets = {}
        shrunk: Offsets = {}
        for name, (queue, low, high) in view.bounds.items():
            before = known.get(name, 0)
            if high >= before:
                ends[name] = high
            elif not queue.is_master:
                ends[name] = before  # The slave has not got everything yet.
            else:
                # Offsets of a new topic begin at 0. A queue without its first messages is an old one, and
                # its broker has lost the last ones: what is left was read.
                shrunk[name] = 0 if low == 0 else high
                self._lost(
                    f"{name[0]} {name[1]} ends at offset {high}, but the stream has read up to {before}: "
                    "the topic was made anew, or its broker lost messages",
                    "begins at its start" if low == 0 else "goes on at its end",
                    {name: self._ends.get(name, before) - before},
                )
                ends[name] = high
        for name in sorted(known.keys() - view.bounds.keys()):
            ends[name] = known[name]
        self._check_missing({name: known[name] for name in known.keys() - view.bounds.keys()}, view)
        return ends, shrunk

    def _check_missing(self, known: Offsets, view: View) -> None:
        """Tells queues whose broker is away from those that their broker no longer has."""
        names = sorted(name for name in known if _broker_of(name) not in view.silent)
        for found in self._missed.keys() - set(names):
            del self._missed[found]
        if not names:
            return
        now = self.clock_ms()
        present = self._cluster.broker_names()
        for name in names:
            if _broker_of(name) not in present:
                self._missed.pop(name, None)
                self._watch.log_once(f"broker {_broker_of(name)} is away: its queues wait for it")
            elif now - self._missed.setdefault(name, now) >= GONE_MS:
                self._lost(
                    f"{name[0]} {name[1]} no longer exists or may no longer be read; what came after offset "
                    f"{known[name]} is lost",
                    "goes on without it",
                )

    def _lost(self, what: str, otherwise: str, counts: Offsets | None = None) -> None:
        """`counts` are messages known to be lost: those that came and went unseen are unknown."""
        if self._options.fail_on_data_loss:
            raise DataLost(f"{what}; failOnDataLoss=false {otherwise}")
        total = ""
        if counts is not None:
            if what not in self._counted:  # Spark may plan a micro-batch twice
                self._counted.add(what)
                for name, count in counts.items():
                    self.lost[name] = self.lost.get(name, 0) + max(0, count)
            total = f"; {counted(sum(self.lost.values()), 'message')} known to be lost so far"
        self._watch.log_once(f"{what}: the stream {otherwise}{total}")

    # ---- what a micro-batch reads ----

    def ranges(self, start: QueueOffsets, end: QueueOffsets) -> list[OffsetRange]:
        """The work of one micro-batch. Raises DataLost, BadOption, SparkSourceError, NetError."""
        known, ends = flat(start), flat(end)
        self._check_checkpoint(ends)
        wanted = {
            name: (known.get(name, 0), high) for name, high in ends.items() if high > known.get(name, 0)
        }
        if not wanted:
            return []
        view = self._with_queues(wanted.keys())
        ranges = []
        for name, (first, last) in sorted(wanted.items()):
            found = view.bounds.get(name)
            if found is None:
                self._lost(
                    f"{name[0]} {name[1]}: offsets {first} to {last - 1} are to be read, but the queue no "
                    "longer exists",
                    "goes on without them",
                    {name: last - first},
                )
                continue
            queue, low, high = found
            if (first < low or last > high) and queue.is_master:
                self._lost(
                    f"{name[0]} {name[1]}: offsets {first} to {last - 1} are to be read, but the queue has "
                    f"{low} to {high - 1} (retention, or a topic made anew)",
                    "reads what is left",
                    {name: last - first - max(0, min(last, high) - max(first, low))},
                )
            low, high = max(first, low), min(last, high) if queue.is_master else last
            if low < high:
                ranges.append(OffsetRange(queue, low, high))
        return split(ranges, self._options)

    def _with_queues(self, wanted: Set[Name]) -> View:
        """A view with these queues, or without those that are gone for good; waits for brokers.

        Raises SparkSourceError when one stays away.
        """
        began: float | None = None
        missed_since: float | None = None
        while True:
            view = self._watch.look()
            self._check_brokers(wanted, view)
            self._check_expression([queue for queue, _, _ in view.bounds.values()])
            missing = sorted(wanted - view.bounds.keys())
            if not missing:
                return view
            now = self.clock_ms()
            began = now if began is None else began
            brokers = {_broker_of(name) for name in missing}
            away = (brokers & view.silent) | (brokers - self._cluster.broker_names())
            if not away:
                missed_since = now if missed_since is None else missed_since
                if now - missed_since >= GONE_MS:
                    return view
            else:
                missed_since = None
                self._watch.log_once(
                    f"broker {', '.join(sorted(away))} is away, and this micro-batch needs it: waiting"
                )
                if now - began > ABSENCE_LIMIT_MS:
                    raise SparkSourceError(
                        f"broker {', '.join(sorted(away))} is away for {ABSENCE_LIMIT_MS / 1000:.0f} s, and "
                        "the micro-batch needs it; start the query again when it is there"
                    )
            self.sleep(PAUSE_S)

    # ---- a checkpoint that is not this query's ----

    def _check_checkpoint(self, known: Offsets) -> None:
        topics = {topic for topic, _ in known}
        foreign = sorted(topic for topic in topics if not self._options.selects(topic))
        if foreign:
            raise BadOption(
                f"the checkpoint is of another query: it holds offsets of {', '.join(foreign[:5])}, and this "
                f"one reads {self._options.pattern or ', '.join(self._options.topics)}; give it a checkpoint "
                "of its own"
            )

    def _check_brokers(self, known: Collection[Name], view: View) -> None:
        """A checkpoint of another cluster names brokers that are unknown here."""
        if self._brokers_checked or not known or not view.bounds:
            return
        self._brokers_checked = True
        ours = {_broker_of(name) for name in view.bounds} | view.silent
        theirs = {_broker_of(name) for name in known}
        if ours.isdisjoint(theirs):
            raise BadOption(
                f"the checkpoint is of another cluster: its brokers are {', '.join(sorted(theirs)[:5])}, and "
                f"here they are {', '.join(sorted(ours)[:5])}"
            )


def _broker_of(name: Name) -> str:
    return name[1].rpartition("|")[0]
