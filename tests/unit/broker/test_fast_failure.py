"""Age that requests may have when the broker gets to them."""

import math

import pytest

from orbitmq.broker.fast_failure import FastFailure
from orbitmq.broker.options import BROKER_TABLE


@pytest.mark.parametrize(
    ("option", "codes", "default"),
    [
        ("waitTimeMillsInSendQueue", (10, 310, 320, 36), 200),
        ("waitTimeMillsInPullQueue", (11, 200050), 5000),
        ("waitTimeMillsInLitePullQueue", (361,), 5000),
        ("waitTimeMillsInHeartbeatQueue", (34,), 31_000),
        ("waitTimeMillsInTransactionQueue", (37,), 3000),
        ("waitTimeMillsInAckQueue", (200051, 200151, 200053), 3000),
        ("waitTimeMillsInAdminBrokerQueue", (17, 25, 28), 5000),
    ],
)
def test_each_kind_of_request_has_its_limit(option: str, codes: tuple[int, ...], default: int) -> None:
    settings = BROKER_TABLE.load([])
    fast_failure = FastFailure(settings)
    assert {fast_failure.max_age_ms(code) for code in codes} == {default}
    BROKER_TABLE.apply_update(settings, {option: "7"})
    assert {fast_failure.max_age_ms(code) for code in codes} == {7}
    assert [fast_failure.max_age_ms(code) for code in (10, 11, 361, 34, 37, 200051, 17)].count(7) == 1


def test_queries_may_be_of_any_age() -> None:
    assert FastFailure(BROKER_TABLE.load([])).max_age_ms(12) == math.inf


def test_without_fast_failure_nothing_is_too_old() -> None:
    settings = BROKER_TABLE.load([])
    BROKER_TABLE.apply_update(settings, {"brokerFastFailureEnable": "false"})
    assert FastFailure(settings).max_age_ms(10) == math.inf
