import orbitmq.protocol.requests.every  # noqa: F401 (declares them)
from orbitmq.broker.broker import handlers
from orbitmq.broker.not_served import NOT_SERVED
from orbitmq.protocol.schema.declare import REQUESTS

SERVED = {request.CODE for request in handlers.by_request}


def test_every_request_to_brokers_has_a_handler_or_a_reason() -> None:
    asked = {code for code, request in REQUESTS.items() if "broker" in request.SERVED_BY}
    assert asked - SERVED - set(NOT_SERVED) == set()


def test_no_reason_is_left_for_a_request_that_is_served() -> None:
    assert SERVED & set(NOT_SERVED) == set()


def test_only_requests_to_brokers_are_listed() -> None:
    assert {code for code in NOT_SERVED if "broker" not in REQUESTS[code].SERVED_BY} == set()
    assert {code for code in SERVED if "broker" not in REQUESTS[code].SERVED_BY} == set()
