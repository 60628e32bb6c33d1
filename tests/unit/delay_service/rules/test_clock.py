from orbitmq.delay_service.rules.clock import JUMP_MS, TRUSTED_AFTER_MS, NeverEarly


def test_it_goes_with_the_clock():
    clock = NeverEarly(1_000_000, 0)
    assert clock.now(1_000_500, 500) == 1_000_500
    assert clock.now(1_001_000 + JUMP_MS // 2, 1000) == 1_001_000 + JUMP_MS // 2


def test_a_clock_that_is_set_back_is_followed_at_once():
    clock = NeverEarly(1_000_000, 0)
    assert clock.now(400_000, 1000) == 400_000
    assert clock.now(400_500, 1500) == 400_500
    assert clock.jumps == 1


def test_a_jump_forward_is_followed_once_it_has_lasted():
    clock = NeverEarly(1_000_000, 0)
    assert clock.now(9_000_000, 1000) == 1_001_000
    assert clock.now(9_000_000 + TRUSTED_AFTER_MS - 1, 1000 + TRUSTED_AFTER_MS - 1) == 1_001_000 + (
        TRUSTED_AFTER_MS - 1
    )
    assert clock.now(9_000_000 + TRUSTED_AFTER_MS, 1000 + TRUSTED_AFTER_MS) == 9_000_000 + TRUSTED_AFTER_MS
    assert clock.jumps == 1


def test_a_jump_by_mistake_has_no_effect():
    clock = NeverEarly(1_000_000, 0)
    assert clock.now(9_000_000, 1000) == 1_001_000
    assert clock.now(1_002_000, 2000) == 1_002_000
