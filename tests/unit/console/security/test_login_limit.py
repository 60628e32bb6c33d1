from orbitmq.console.security.login_limit import FREE_FAILURES, LONGEST_SECONDS, MAX_REMEMBERED, LoginLimit


def test_failures_slow_logins_down_ever_more_and_a_success_ends_that() -> None:
    limit = LoginLimit()
    waits = []
    for _ in range(FREE_FAILURES + 12):
        waits.append(limit.wait_seconds("ann", 0))
        limit.failed("ann", 0)
    assert waits[: FREE_FAILURES + 4] == [0, 0, 0, 0, 0, 1, 2, 4, 8]
    assert waits[-1] == LONGEST_SECONDS
    assert limit.wait_seconds("bob", 0) == 0
    limit.succeeded("ann")
    assert limit.wait_seconds("ann", 0) == 0


def test_memory_of_failures_is_bounded() -> None:
    limit = LoginLimit()
    for name in ("ann", "bob"):
        for _ in range(FREE_FAILURES):
            limit.failed(name, 0)
    for number in range(MAX_REMEMBERED - 1):
        limit.failed(str(number), 0)
    assert (limit.wait_seconds("ann", 0), limit.wait_seconds("bob", 0)) == (0, 1), "the oldest is forgotten"
