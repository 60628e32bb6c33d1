from orbitmq.console.history import History


def test_the_oldest_points_go_where_there_is_no_room() -> None:
    history = History(["lag"], size=3)
    for second in range(5):
        history.add(second, {"lag": second * 10.0})
    assert history.since(0) == ([2, 3, 4], {"lag": [20, 30, 40]})


def test_only_points_from_the_time_on_are_given() -> None:
    history = History(["lag"])
    for second in range(5):
        history.add(second, {"lag": 1.0})
    assert history.since(3)[0] == [3, 4]


def test_a_peak_survives_thinning() -> None:
    history = History(["lag"])
    for second in range(100):
        history.add(second, {"lag": 900.0 if second == 41 else 1.0})
    times, series = history.since(0, most=10)
    assert len(times) == 10
    assert max(value for value in series["lag"] if value is not None) == 900.0


def test_what_is_not_known_is_a_gap() -> None:
    history = History(["lag", "disk"])
    history.add(1, {"lag": None, "disk": 0.5})
    assert history.since(0) == ([1], {"lag": [None], "disk": [0.5]})
