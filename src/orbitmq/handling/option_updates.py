"""Options changed by a request: its text, and the refusal of a change that is not allowed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from orbitmq.options.errors import NotAtRunTime, OptionError
from orbitmq.options.properties import parse_properties
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused

MAX_UPDATE_BYTES = 1 << 16


def parse_update(body: bytes | memoryview) -> dict[str, str]:
    """The options that a request sets, and their values.

    Raises Refused (INVALID_PARAMETER) if the text is too long, UnreadableSource if it is no properties text.
    """
    if len(body) > MAX_UPDATE_BYTES:
        raise Refused(ResponseCode.INVALID_PARAMETER, f"more than {MAX_UPDATE_BYTES} bytes of options")
    return parse_properties(bytes(body), "update")


@contextmanager
def update_errors_refused(black_list: str) -> Iterator[None]:
    """Turns errors of options into Refused, with the codes and remarks of Apache's servers.

    NO_PERMISSION for an option that an update may not change, INVALID_PARAMETER for a wrong name or value.
    """
    try:
        yield
    except NotAtRunTime as error:
        is_listed = not set(error.names).isdisjoint(black_list.split(";"))
        remark = "Can not update config in black list." if is_listed else str(error)
        raise Refused(ResponseCode.NO_PERMISSION, remark) from None
    except OptionError as error:
        raise Refused(ResponseCode.INVALID_PARAMETER, str(error)) from None
