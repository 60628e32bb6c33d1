"""Times that a receive may be held."""

from __future__ import annotations

import pytest

from orbitmq.options import Layer
from orbitmq.proxy.context import Caller
from orbitmq.proxy.errors import ProxyRefused
from orbitmq.proxy.options import PROXY_TABLE
from orbitmq.proxy.receiving import waiting_ms
from orbitmq.proxy.wire import messaging_pb2 as pb

LIMITS = {
    "longPollingReserveTimeInMillis": "200",
    "grpcClientConsumerMinLongPollingTimeoutMillis": "4000",
    "grpcClientConsumerMaxLongPollingTimeoutMillis": "25000",
}
OPTIONS = PROXY_TABLE.load([Layer("the test", LIMITS)])


def waits(asked_ms: int | None, left_ms: float | None, version: str = "5.0.7") -> int:
    request, settings = pb.ReceiveMessageRequest(), pb.Settings()
    settings.request_timeout.FromMilliseconds(3000)
    if asked_ms is not None:
        request.long_polling_timeout.FromMilliseconds(asked_ms)
    return waiting_ms(request, settings, Caller("c", "JAVA", version, "127.0.0.1:1", left_ms), OPTIONS)


@pytest.mark.parametrize(
    ("asked_ms", "left_ms", "held_ms"),
    [
        (10_000, None, 10_000),
        (1, None, 4000),
        (60_000, None, 25_000),
        (None, None, 25_000),
        (None, 15_000, 13_500),
        (20_000, 30_000, 20_000),
        (20_000, 12_000, 11_800),
        (20_000, 20_000, 19_800),
        (5000, 5000, 4800),
    ],
)
def test_a_receive_is_held_as_asked_for_within_limits(
    asked_ms: int | None, left_ms: float | None, held_ms: int
) -> None:
    assert waits(asked_ms, left_ms) == held_ms


@pytest.mark.parametrize(("version", "code"), [("5.0.7", pb.ILLEGAL_POLLING_TIME), ("5.0.2", pb.BAD_REQUEST)])
def test_a_call_that_ends_too_soon_is_refused(version: str, code: pb.Code.ValueType) -> None:
    with pytest.raises(ProxyRefused) as refused:
        waits(20_000, 3999, version)
    assert refused.value.code == code
