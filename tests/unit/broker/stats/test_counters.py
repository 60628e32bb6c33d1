from orbitmq.broker.stats.counters import FLOWS_PER_STEP, BrokerStats
from orbitmq.broker.stats.rate_counters import DAY_STEP_MS, HOUR_STEP_MS, MINUTE_STEP_MS

START = 1_795_000_000_000


def run(stats: BrokerStats, from_ms: int, seconds: int) -> int:
    for second in range(1, seconds + 1):
        stats.tick(from_ms + second * 1000)
    return from_ms + seconds * 1000


def test_windows_show_what_went_through_since_their_first_sample() -> None:
    stats = BrokerStats("C", START)
    stats.put("T", 0, messages=5, size_bytes=500)
    stats.put("T", 1, messages=1, size_bytes=100)
    run(stats, START, 10)
    found = stats.find("TOPIC_PUT_NUMS", "T")
    assert found is not None
    flow, counter = found
    window = flow.window(flow.minute, counter)
    assert window.sum == 6
    assert window.tps == 0.6
    assert window.avgpt == 3.0
    assert stats.put_tps("T") == 0.6
    found = stats.find("QUEUE_PUT_SIZE", "T@1")
    assert found is not None
    assert found[0].window(found[0].minute, found[1]).sum == 100


def test_a_minute_later_nothing_is_left_in_the_window_and_the_next_put_counts_in_full() -> None:
    stats = BrokerStats("C", START)
    stats.put("T", 0, 1, 10)
    now = run(stats, START, 80)
    assert stats.put_tps("T") == 0.0
    stats.put("T", 0, 2, 10)
    run(stats, now, 10)
    flow = stats.topic_put.by_key["T"]
    assert flow.window(flow.minute, "messages").sum == 2
    assert flow.window(flow.minute, "messages").tps == 0.2


def test_hour_and_day_have_steps_of_their_own() -> None:
    stats = BrokerStats("C", START)
    stats.put("T", 0, 7, 70)
    stats.tick(START + HOUR_STEP_MS)
    flow = stats.topic_put.by_key["T"]
    assert flow.window(flow.hour, "messages").sum == 7
    assert flow.window(flow.day, "messages").sum == 0
    stats.tick(START + DAY_STEP_MS)
    assert flow.window(flow.day, "messages").sum == 7


def test_names_and_keys_of_the_statistics() -> None:
    stats = BrokerStats("C", START)
    stats.put("T", 3, 1, 10)
    stats.pulled("G", "T", 3, 1, 10)
    stats.sent_back("G", "T")
    for name, key in [
        ("TOPIC_PUT_NUMS", "T"),
        ("TOPIC_PUT_SIZE", "T"),
        ("TOPIC_PUT_LATENCY", "3@T"),
        ("QUEUE_PUT_NUMS", "T@3"),
        ("GROUP_GET_NUMS", "T@G"),
        ("GROUP_GET_LATENCY", "3@T@G"),
        ("QUEUE_GET_NUMS", "T@3@G"),
        ("SNDBCK_PUT_NUMS", "T@G"),
        ("BROKER_PUT_NUMS", "C"),
        ("BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC", "C"),
    ]:
        assert stats.find(name, key) is not None, (name, key)
    for name, key in [
        ("NO_SUCH", "T"),
        ("TOPIC_PUT_NUMS", "U"),
        ("QUEUE_PUT_NUMS", "T"),
        ("QUEUE_PUT_NUMS", "T@x"),
    ]:
        assert stats.find(name, key) is None, (name, key)


def test_messages_of_the_system_are_not_those_of_users() -> None:
    stats = BrokerStats("C", START)
    stats.put("RMQ_SYS_TRACE_TOPIC", 0, 1, 10, system=True)
    assert stats.find("BROKER_PUT_NUMS", "C") is not None
    assert stats.find("BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC", "C") is None


def test_a_pull_that_finds_nothing_is_a_miss() -> None:
    stats = BrokerStats("C", START)
    stats.missed()
    assert stats.totals.get_miss_times == 1
    assert stats.find("GROUP_GET_NUMS", "T@G") is None


def test_rates_come_over_10_60_and_600_seconds_as_the_broker_grows_older() -> None:
    stats = BrokerStats("C", START)
    assert stats.rates("put") == (0.0,)
    stats.tick(START)
    now = START
    for _ in range(70):
        stats.put("T", 0, 10, 100)
        now += 1000
        stats.tick(now)
    assert stats.rates("put") == (10.0, 10.0)


def test_what_is_deleted_is_not_counted_any_more() -> None:
    stats = BrokerStats("C", START)
    stats.put("T", 0, 1, 10)
    stats.pulled("G", "T", 0, 1, 10)
    stats.forget_group("G")
    assert stats.find("GROUP_GET_NUMS", "T@G") is None
    stats.forget_topic("T")
    assert stats.find("TOPIC_PUT_NUMS", "T") is None
    assert stats.find("QUEUE_PUT_NUMS", "T@0") is None


def test_the_day_begins_with_what_there_was_at_midnight() -> None:
    stats = BrokerStats("C", START)
    stats.put("T", 0, 4, 10)
    stats.tick(START + 86_400_000)
    stats.put("T", 0, 1, 10)
    assert stats.put_today_morning == 4
    stats.tick(START + 2 * 86_400_000)
    assert (stats.put_yesterday_morning, stats.put_today_morning) == (4, 5)


def test_very_many_flows_are_sampled_in_steps() -> None:
    stats = BrokerStats("C", START)
    for queue_id in range(3 * FLOWS_PER_STEP):
        stats.put_fresh("T", queue_id, 1, 10)
    now = START + MINUTE_STEP_MS
    steps = 1
    while stats.tick(now):
        steps += 1
    assert steps == 4
    assert stats.topic_put.by_key["T"].messages == 3 * FLOWS_PER_STEP
    for queue_id in (0, 3 * FLOWS_PER_STEP - 1):
        flow = stats.queue_put.by_key["T", queue_id]
        assert flow.window(flow.minute, "messages").sum == 1
    assert stats.totals.put_messages == 3 * FLOWS_PER_STEP
    assert not stats.tick(now + 1000), "nothing is due before the next step of the minute"
