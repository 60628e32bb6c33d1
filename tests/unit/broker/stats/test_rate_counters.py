from orbitmq.broker.stats.rate_counters import DAY_STEP_MS, MINUTE_STEP_MS, Flow, Flows


def test_a_flow_that_was_never_sampled_has_empty_windows() -> None:
    flow = Flow()
    flow.add(3, 30)
    assert flow.window(flow.minute, "messages") == (0, 0.0, 0.0)


def test_the_window_moves_on() -> None:
    flow, now = Flow(), 0
    for second in range(10):
        flow.add(1, 10, 2)
        now = (second + 1) * MINUTE_STEP_MS
        flow.sample(flow.minute, now, MINUTE_STEP_MS)
    window = flow.window(flow.minute, "messages")
    assert (window.sum, window.tps, window.avgpt) == (6, 0.1, 1.0)
    assert flow.window(flow.minute, "took_ms").avgpt == 2.0


def test_idle_flows_are_not_sampled_and_begin_anew_when_they_move() -> None:
    flows: Flows[str] = Flows()
    flows.add("T", 5)
    for step in range(1, 12):
        list(flows.sample_minute(step * MINUTE_STEP_MS))
    flow = flows.by_key["T"]
    assert len(flow.minute) == 1
    flows.add("T", 2, calls=2)
    list(flows.sample_minute(100 * MINUTE_STEP_MS))
    window = flow.window(flow.minute, "messages")
    assert (window.sum, window.tps, window.avgpt) == (2, 0.2, 1.0)


def test_what_is_removed_is_gone_from_every_window() -> None:
    flows: Flows[str] = Flows()
    flows.add("T", 5)
    flows.remove(lambda key: key == "T")
    assert flows.by_key == {}
    assert not list(flows.sample_minute(MINUTE_STEP_MS))
    assert not list(flows.sample_hour(MINUTE_STEP_MS))
    assert not list(flows.sample_day(MINUTE_STEP_MS))


def test_a_day_ends_now_and_not_at_the_last_sample_and_has_24_hours_at_most() -> None:
    flow = Flow()
    flow.add(5)
    assert flow.day_until(1000, "messages").sum == 5, "all since the start"
    for hour in range(1, 41):
        flow.sample(flow.day, hour * DAY_STEP_MS, DAY_STEP_MS)
        flow.add(1)
    now = 40 * DAY_STEP_MS + DAY_STEP_MS // 2
    assert flow.day_until(now, "messages").sum == 24
    for hour in range(41, 70):
        flow.sample(flow.day, hour * DAY_STEP_MS, DAY_STEP_MS)
    assert flow.day_until(69 * DAY_STEP_MS, "messages").sum == 0
    flow.add(3)
    assert flow.day_until(100 * DAY_STEP_MS, "messages").sum == 3
