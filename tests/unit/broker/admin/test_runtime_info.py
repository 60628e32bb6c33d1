from orbitmq.broker.admin.runtime_info import TimerFigures, Uptime, human_size, runtime_info
from orbitmq.broker.stats.counters import BrokerStats
from orbitmq.store import StoreFigures

TIMERS = TimerFigures(2500, 3, 4, 0.5, 1.5)


def test_every_value_is_a_text_that_mqadmin_can_read() -> None:
    stats = BrokerStats("C", 0)
    stats.put("T", 0, 4, 400, took_ms=3)
    store = StoreFigures(
        max_physical_offset=500,
        commit_log_disk_ratios={"/data/commitlog": 0.25, "/more": 0.5},
        disk_total_bytes=252 * 2**30,
        disk_free_bytes=233 * 2**30,
    )
    uptime = Uptime(boot_ms=0)
    info = runtime_info(stats, store, uptime, {2: (1, 3)}, {"send": 10_000}, TIMERS, now=90_061_000)
    assert all(isinstance(value, str) for value in info.values())
    assert info["brokerVersionDesc"] == "V5_4_0"
    assert info["runtime"] == "[ 1 days, 1 hours, 1 minutes, 1 seconds ]"
    assert info["putMessageAverageSize"] == "100.0"
    assert info["putMessageDistributeTime"].startswith("[<=0ms]:0 [0~10ms]:1 ")
    assert info["putLatency99"] == "10.00"
    assert info["commitLogDiskRatio"] == "0.25"
    assert info["commitLogDiskRatio_/more"] == "0.5"
    assert info["commitLogDirCapacity"] == "Total : 252.0 GiB, Free : 233.0 GiB."
    assert info["scheduleMessageOffset_2"] == "1,3"
    assert info["sendThreadPoolQueueCapacity"] == "10000"
    assert info["remainHowManyDataToFlush"] == "0 B"
    assert (info["unflushedBytes"], info["unflushedTimeMillis"]) == ("0", "0")
    figures = ("ReadBehind", "OffsetBehind", "CongestNum", "EnqueueTps", "DequeueTps")
    assert [info[f"timer{name}"] for name in figures] == ["2", "3", "4", "0.5", "1.5"]
    assert float(info["putTps"].split(" ")[0]) == 0.0


def test_what_a_power_cut_would_cost() -> None:
    store = StoreFigures(unflushed_bytes=2048, unflushed_since_ms=5000)
    info = runtime_info(BrokerStats("C", 0), store, Uptime(boot_ms=0), {}, {}, TIMERS, now=5750)
    assert info["remainHowManyDataToFlush"] == "2.0 KiB"
    assert (info["unflushedBytes"], info["unflushedTimeMillis"]) == ("2048", "750")


def test_sizes_for_people() -> None:
    assert human_size(1023) == "1023 B"
    assert human_size(1536) == "1.5 KiB"
    assert human_size(3 * 2**40) == "3.0 TiB"
