from __future__ import annotations

from functools import partial

import pytest

from orbitmq.client.core.calling import is_async
from orbitmq.client.core.handlers import RETRY, Handler, Retry
from orbitmq.client.core.message import ReceivedMessage


async def async_handler(message: ReceivedMessage) -> None: ...


def plain_handler(message: ReceivedMessage) -> None: ...


class AsyncObject:
    async def __call__(self, message: ReceivedMessage) -> None: ...

    async def method(self, message: ReceivedMessage) -> None: ...

    def plain(self, message: ReceivedMessage) -> None: ...


@pytest.mark.parametrize(
    ("handler", "asynchronous"),
    [
        (async_handler, True),
        (plain_handler, False),
        (partial(async_handler), True),
        (AsyncObject(), True),
        (AsyncObject().method, True),
        (AsyncObject().plain, False),
        (print, False),
    ],
)
def test_which_handlers_block(handler: Handler, asynchronous: bool) -> None:
    assert is_async(handler) is asynchronous


def test_retry_leaves_the_time_to_the_broker_unless_told() -> None:
    assert Retry() == RETRY
    assert Retry(delay_level=-1) != RETRY
