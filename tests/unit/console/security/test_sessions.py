from orbitmq.console.security.roles import Role
from orbitmq.console.security.sessions import IDLE_SECONDS, LIFETIME_SECONDS, MAX_SESSIONS, Sessions


def test_a_session_ends_when_it_is_idle_old_or_closed() -> None:
    sessions = Sessions()
    token, session = sessions.open("ann", Role.VIEWER, 0)
    assert sessions.find(token, IDLE_SECONDS) is session
    assert sessions.find(token, 2 * IDLE_SECONDS + 1) is None
    token, _ = sessions.open("ann", Role.VIEWER, 0)
    for now in range(0, LIFETIME_SECONDS + 1, IDLE_SECONDS):
        assert sessions.find(token, now) is not None
    assert sessions.find(token, LIFETIME_SECONDS + 1) is None
    token, _ = sessions.open("ann", Role.VIEWER, 0)
    sessions.close(token)
    assert sessions.find(token, 1) is None


def test_a_session_may_have_a_shorter_life_however_much_it_is_used() -> None:
    sessions = Sessions()
    token, _ = sessions.open("ann", Role.VIEWER, 0, lifetime_seconds=60, external=True)
    assert sessions.find(token, 59) is not None
    assert sessions.find(token, 61) is None


def test_the_session_unused_for_longest_makes_room() -> None:
    sessions = Sessions()
    first, _ = sessions.open("ann", Role.VIEWER, 0)
    second, _ = sessions.open("ann", Role.VIEWER, 0)
    for _ in range(MAX_SESSIONS - 2):
        sessions.open("bob", Role.VIEWER, 0)
    assert sessions.find(first, 1)
    sessions.open("bob", Role.VIEWER, 1)
    assert sessions.find(first, 1)
    assert sessions.find(second, 1) is None
