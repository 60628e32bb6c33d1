"""Updates of options that a server refuses."""

from __future__ import annotations

import pytest

from orbitmq.handling.option_updates import MAX_UPDATE_BYTES, parse_update, update_errors_refused
from orbitmq.options.errors import NotAtRunTime, UnreadableSource
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused


def test_an_update_of_any_length_up_to_the_limit_is_read() -> None:
    longest = b"key=" + b"v" * (MAX_UPDATE_BYTES - 4)
    assert parse_update(memoryview(longest)) == {"key": "v" * (MAX_UPDATE_BYTES - 4)}
    with pytest.raises(Refused, match="more than 65536 bytes") as refused:
        parse_update(longest + b"v")
    assert refused.value.code == ResponseCode.INVALID_PARAMETER


@pytest.mark.parametrize(
    ("error", "code", "remark"),
    [
        (
            NotAtRunTime(["rocketmqHome"], "no"),
            ResponseCode.NO_PERMISSION,
            "Can not update config in black list.",
        ),
        (
            NotAtRunTime(["listenPort"], "needs a start"),
            ResponseCode.NO_PERMISSION,
            "listenPort: needs a start",
        ),
        (UnreadableSource("update", "is no text"), ResponseCode.INVALID_PARAMETER, "is no text"),
    ],
)
def test_a_change_that_is_not_allowed_is_refused_with_its_reason(
    error: Exception, code: ResponseCode, remark: str
) -> None:
    with pytest.raises(Refused) as refused, update_errors_refused("brokerName;rocketmqHome"):
        raise error
    assert refused.value.code == code
    assert remark in str(refused.value)
