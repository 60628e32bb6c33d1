from orbitmq.broker.client.locks import LOCK_LIVE_MS, QueueLocks

Q0, Q1 = ("T", "broker-a", 0), ("T", "broker-a", 1)


def test_a_queue_belongs_to_one_client_of_a_group() -> None:
    locks = QueueLocks()
    assert locks.lock("G", "c1", [Q0, Q1], 1000) == [Q0, Q1]
    assert locks.lock("G", "c2", [Q0, Q1], 1001) == []
    assert locks.lock("other", "c2", [Q0], 1001) == [Q0]


def test_the_owner_renews_and_others_take_what_expired() -> None:
    locks = QueueLocks()
    locks.lock("G", "c1", [Q0], 0)
    assert locks.lock("G", "c1", [Q0], LOCK_LIVE_MS) == [Q0]
    assert locks.lock("G", "c2", [Q0], 2 * LOCK_LIVE_MS) == []
    assert locks.lock("G", "c2", [Q0], 2 * LOCK_LIVE_MS + 1) == [Q0]


def test_unlocking_gives_up_only_what_is_ones_own() -> None:
    locks = QueueLocks()
    locks.lock("G", "c1", [Q0], 0)
    locks.unlock("G", "c2", [Q0])
    assert locks.lock("G", "c2", [Q0], 1) == []
    locks.unlock("G", "c1", [Q0, Q1])
    assert locks.lock("G", "c2", [Q0], 1) == [Q0]
    locks.unlock("unknown", "c1", [Q0])


def test_a_live_lock_marks_a_group_of_ordered_consumers() -> None:
    locks = QueueLocks()
    assert not locks.group_holds("G", 0)
    locks.lock("G", "c1", [Q0], 0)
    assert locks.group_holds("G", LOCK_LIVE_MS)
    assert not locks.group_holds("G", LOCK_LIVE_MS + 1)


def test_expired_locks_are_removed() -> None:
    locks = QueueLocks()
    locks.lock("G", "c1", [Q0], 0)
    locks.lock("H", "c1", [Q0], 50_000)
    locks.expire(LOCK_LIVE_MS + 1)
    assert not locks.group_holds("G", 0)
    assert locks.group_holds("H", LOCK_LIVE_MS + 1)
