"""Web addresses as targets: each message is a POST, and the answer says if it is done, as DDMQ's does.

Status 200 with `errno` 0, 1000000 or 1000001, or without one, means done. Everything else is tried again with
growing pauses, and is a dead letter after the last try.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
import time
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from orbitmq.delay_service.errors import NoForm
from orbitmq.delay_service.rules.delivery import (
    Outgoing,
    Result,
    Sent,
    delivered_properties,
    outgoing_content,
)
from orbitmq.delay_service.rules.forms import as_rocketmq
from orbitmq.delay_service.targets.target import LEASE_OVER, always

TIMEOUT_SECONDS = 5.0
MOST_TRIES = 8
MOST_ANSWER_BYTES = 64 << 10
DONE = frozenset({0, 1_000_000, 1_000_001})
"""Values of `errno`: done, done and slow down, cannot be processed and shall not come again."""
SENT = Sent(Result.SENT)


class WebhookTarget:
    """Sends to all web addresses."""

    def __init__(self) -> None:
        self._tries: dict[bytes, int] = {}
        self.may_send: Callable[[], bool] = always
        self._context = ssl.create_default_context()

    async def start(self) -> None:
        """Nothing: each message has a connection of its own."""

    async def close(self) -> None:
        """Nothing."""

    async def deliver(self, topic: str, batch: Sequence[Outgoing]) -> list[Sent]:
        """The fate of each message of a batch; one after the other, until one fails."""
        results: list[Sent] = []
        for one in batch:
            if results and results[-1].result in (Result.FAILED, Result.NOT_SENT):
                results.append(Sent(Result.NOT_SENT, results[-1].reason))
                continue
            if not self.may_send():
                results.append(LEASE_OVER)
                continue
            try:
                body, headers = request_of(one)
            except NoForm as error:
                results.append(Sent(Result.REFUSED, str(error)))
                continue
            problem = await asyncio.to_thread(self._post, topic, body, headers)
            results.append(self._fate(one.key, problem))
        return results

    def _fate(self, key: bytes, problem: str) -> Sent:
        if not problem:
            self._tries.pop(key, None)
            return SENT
        tries = self._tries.get(key, 0) + 1
        if tries >= MOST_TRIES:
            self._tries.pop(key, None)
            return Sent(Result.REFUSED, f"{problem}, after {tries} tries")
        self._tries[key] = tries
        return Sent(Result.FAILED, problem)

    def _post(self, url: str, body: bytes, headers: dict[str, str]) -> str:
        """The reason why a message is not done, empty if it is."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        connection = (
            http.client.HTTPSConnection(host, parts.port, timeout=TIMEOUT_SECONDS, context=self._context)
            if parts.scheme == "https"
            else http.client.HTTPConnection(host, parts.port, timeout=TIMEOUT_SECONDS)
        )
        try:
            path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
            connection.request("POST", path, body, headers)
            answer = connection.getresponse()
            return problem_of(answer.status, _read(answer, time.monotonic() + TIMEOUT_SECONDS))
        except (OSError, http.client.HTTPException) as error:
            return f"{host}: {type(error).__name__}: {error}"
        finally:
            connection.close()


def _read(answer: http.client.HTTPResponse, until: float) -> bytes:
    """The beginning of a body. Raises TimeoutError for one that comes too slowly, or never ends."""
    data = b""
    while len(data) < MOST_ANSWER_BYTES and (part := answer.read1(MOST_ANSWER_BYTES - len(data))):
        if time.monotonic() > until:
            raise TimeoutError("the answer has not ended in time")
        data += part
    return data


def request_of(one: Outgoing) -> tuple[bytes, dict[str, str]]:
    """Body and headers of a message. Raises NoForm.

    Its own properties are one header of JSON, in ASCII: their names and values may be any text.
    """
    body, properties, _ = as_rocketmq(outgoing_content(one))
    given = delivered_properties(one)
    own = {name: value for name, value in properties.items() if name not in given}
    headers = {name.replace(".", "-"): json.dumps(value)[1:-1] for name, value in given.items()}
    headers["delay-properties"] = json.dumps(own)
    headers["Content-Type"] = "application/octet-stream"
    return body, headers


def problem_of(status: int, data: bytes) -> str:
    """The reason why an answer means that a message is not done, empty if it is."""
    if status != 200:
        return f"status {status}"
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return ""
    errno = found.get("errno", 0) if isinstance(found, dict) else 0
    return "" if errno in DONE else f"errno {str(errno)[:40]}"
