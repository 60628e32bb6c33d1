from orbitmq.delay_service.rules.delivery import Result
from orbitmq.delay_service.targets.missing import MISSING_SECONDS, Missing


def test_a_topic_is_missing_for_good_after_a_while():
    now = [0.0]
    missing = Missing(lambda: now[0])
    assert missing.verdict("t", "why").result is Result.NOT_SENT
    now[0] = MISSING_SECONDS - 1
    assert missing.verdict("t", "why").result is Result.NOT_SENT
    now[0] = MISSING_SECONDS
    assert missing.verdict("t", "why").result is Result.NO_TARGET


def test_the_time_of_an_outage_does_not_count():
    now = [0.0]
    missing = Missing(lambda: now[0])
    missing.verdict("t", "why")
    missing.unreachable()
    now[0] = MISSING_SECONDS
    assert missing.verdict("t", "why").result is Result.NOT_SENT
