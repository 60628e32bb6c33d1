"""GET_BROKER_RUNTIME_INFO: the figures of a broker as the texts that `mqadmin` reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orbitmq.broker.stats.counters import PUT_TIME_BOUNDS_MS, PUT_TIME_NAMES, BrokerStats
from orbitmq.store import StoreFigures

VERSION_TEXT = "V5_4_0"
"""The release whose behaviour this broker shows."""

NO_POOL_BUFFERS = 2147483647
"""remainTransientStoreBufferNumbs of a store without a transient pool."""


@dataclass(slots=True)
class Uptime:
    """The time at which this broker started, and the time from which it takes messages."""

    boot_ms: int
    accept_sends_from_ms: int = 0


@dataclass(slots=True)
class TimerFigures:
    """Progress of timer messages."""

    read_behind_ms: int = 0
    """For how long the oldest slot that is not delivered has been due."""
    offset_behind: int = 0
    """Messages that are not in the wheel yet."""
    pending: int = 0
    enqueue_tps: float = 0.0
    dequeue_tps: float = 0.0


def runtime_info(
    stats: BrokerStats,
    store: StoreFigures,
    uptime: Uptime,
    delay_positions: Mapping[int, tuple[int, int]],
    queue_capacities: Mapping[str, int],
    timers: TimerFigures,
    now: int,
    unreplicated: tuple[int, int] | None = None,
) -> dict[str, str]:
    """All keys, in the order of the answer.

    `delay_positions` is level -> (next queue offset, end of its queue). This broker has no thread pools
    whose queues could fill up: their sizes are 0, `queue_capacities` has the configured limits.
    `unreplicated` is what no slave has, in bytes and ms; None where no slave is connected.
    """
    info: dict[str, object] = {
        "brokerActive": "true",
        "brokerVersionDesc": VERSION_TEXT,
        "bootTimestamp": uptime.boot_ms,
        "startAcceptSendRequestTimeStamp": uptime.accept_sends_from_ms,
        "runtime": _duration(now - uptime.boot_ms),
        **_traffic(stats),
        **_storage(store, now),
        "timerReadBehind": timers.read_behind_ms // 1000,
        "timerOffsetBehind": timers.offset_behind,
        "timerCongestNum": timers.pending,
        "timerEnqueueTps": timers.enqueue_tps,
        "timerDequeueTps": timers.dequeue_tps,
    }
    if unreplicated is not None:
        info["unreplicatedBytes"], info["unreplicatedTimeMillis"] = unreplicated
    for path, ratio in store.commit_log_disk_ratios.items():
        info[f"commitLogDiskRatio_{path}"] = ratio
    for level, (position, end) in sorted(delay_positions.items()):
        info[f"scheduleMessageOffset_{level}"] = f"{position},{end}"
    for pool in ("send", "pull", "litePull", "query", "ack"):
        info[f"{pool}ThreadPoolQueueSize"] = 0
        info[f"{pool}ThreadPoolQueueCapacity"] = queue_capacities.get(pool, 0)
        info[f"{pool}ThreadPoolQueueHeadWaitTimeMills"] = 0
    info["EndTransactionQueueSize"] = 0
    info["EndTransactionThreadPoolQueueCapacity"] = queue_capacities.get("endTransaction", 0)
    return {key: str(value) for key, value in info.items()}


def _traffic(stats: BrokerStats) -> dict[str, object]:
    """Messages that were stored and read, and how long that took."""
    totals = stats.totals
    return {
        "msgPutTotalYesterdayMorning": stats.put_yesterday_morning,
        "msgPutTotalTodayMorning": stats.put_today_morning,
        "msgPutTotalTodayNow": totals.put_messages,
        "msgGetTotalYesterdayMorning": stats.get_yesterday_morning,
        "msgGetTotalTodayMorning": stats.get_today_morning,
        "msgGetTotalTodayNow": totals.get_messages,
        "putTps": _rates(stats.rates("put")),
        "getFoundTps": _rates(stats.rates("found")),
        "getMissTps": _rates(stats.rates("miss")),
        "getTotalTps": _rates(
            tuple(a + b for a, b in zip(stats.rates("found"), stats.rates("miss"), strict=True))
        ),
        "getTransferredTps": _rates(stats.rates("transferred")),
        "putMessageTimesTotal": totals.put_messages,
        "putMessageFailedTimes": totals.put_failed,
        "putMessageSizeTotal": totals.put_size_bytes,
        "putMessageAverageSize": totals.put_size_bytes / totals.put_messages if totals.put_messages else 0.0,
        "putMessageEntireTimeMax": totals.put_took_max_ms,
        "getMessageEntireTimeMax": totals.get_took_max_ms,
        "putMessageDistributeTime": "".join(
            f"{name}:{count} " for name, count in zip(PUT_TIME_NAMES, totals.put_took_counts, strict=True)
        ),
        "putLatency99": f"{_percentile(totals.put_took_counts, 0.99):.2f}",
        "putLatency999": f"{_percentile(totals.put_took_counts, 0.999):.2f}",
    }


def _storage(store: StoreFigures, now: int) -> dict[str, object]:
    """The extent of the commit log, and the disk below it."""
    return {
        "dispatchMaxBuffer": 0,
        "dispatchBehindBytes": store.dispatch_behind_bytes,
        "pageCacheLockTimeMills": store.flushing_ms,
        "earliestMessageTimeStamp": store.earliest_store_time_ms,
        "commitLogMinOffset": store.min_physical_offset,
        "commitLogMaxOffset": store.max_physical_offset,
        "commitLogDiskRatio": min(store.commit_log_disk_ratios.values(), default=0.0),
        "consumeQueueDiskRatio": store.consume_queue_disk_ratio,
        "commitLogDirCapacity": (
            f"Total : {human_size(store.disk_total_bytes)}, Free : {human_size(store.disk_free_bytes)}."
        ),
        "remainHowManyDataToFlush": human_size(store.unflushed_bytes),
        "unflushedBytes": store.unflushed_bytes,
        "unflushedTimeMillis": (
            max(0, now - store.unflushed_since_ms) if store.unflushed_since_ms >= 0 else 0
        ),
        "remainTransientStoreBufferNumbs": NO_POOL_BUFFERS,
    }


def human_size(size_bytes: int) -> str:
    """Bytes for people: `0 B`, `1.5 KiB`, `252.0 GiB`."""
    if size_bytes < 1024:
        return f"{size_bytes} B"
    size = float(size_bytes)
    for unit in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        size /= 1024
        if size < 1024 or unit == "PiB":
            break
    return f"{size:.1f} {unit}"


def _duration(elapsed_ms: int) -> str:
    seconds = max(0, elapsed_ms) // 1000
    days, hours, minutes = seconds // 86_400, seconds // 3_600 % 24, seconds // 60 % 60
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds % 60} seconds ]"


def _rates(rates: tuple[float, ...]) -> str:
    return " ".join(str(rate) for rate in rates)


def _percentile(counts: list[int], share: float) -> float:
    """The upper bound, in ms, of the class in which the share of all puts is reached."""
    total = sum(counts)
    if not total:
        return 0.0
    reached = 0
    for index, count in enumerate(counts):
        reached += count
        if reached >= total * share:
            return float(PUT_TIME_BOUNDS_MS[min(index, len(PUT_TIME_BOUNDS_MS) - 1)])
    return float(PUT_TIME_BOUNDS_MS[-1])
