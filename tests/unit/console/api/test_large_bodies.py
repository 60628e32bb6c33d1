"""Bodies that inflate to more than a console takes: pages show the message, and why not the body."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from orbitmq import FIRST_OFFSET, Admin, Message, Producer, PushConsumer, SendResult
from orbitmq.admin import bodies
from orbitmq.console.api import messages
from orbitmq.testing import LocalBroker
from tests.kit.client_queues import Seen
from tests.kit.running_console import RunningConsole

LIMIT = 300_000
LARGE = b"needle" + bytes(2 << 20)
OPTION = f"inflates to more than {LIMIT} bytes: --max-inflated-body-bytes sets this maximum"
CLUSTER = "/api/clusters/here"


@pytest.fixture(scope="module")
def strict(console_broker: LocalBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    folder = tmp_path_factory.mktemp("strict")
    with RunningConsole(folder, here=console_broker.namesrv, max_inflated_body_bytes=LIMIT) as running:
        yield running


@pytest.fixture
def api(strict: RunningConsole) -> httpx.Client:
    return strict.client()


@pytest.fixture(scope="module")
def sent(console_broker: LocalBroker) -> list[SendResult]:
    """A large message between small ones in one queue, and a dead letter with the same body."""
    console_broker.create_topic("large", 1)

    async def send() -> list[SendResult]:
        async with Producer("p", console_broker.namesrv) as producer:
            sent = [
                await producer.send(Message("large", body, keys=f"k{number}", tags="t"))
                for number, body in enumerate([b"first", LARGE, b"last"])
            ]
        async with PushConsumer(
            "large-group",
            console_broker.namesrv,
            consume_from_where=FIRST_OFFSET,
            max_reconsume_times=0,
            max_inflated_body_bytes=LIMIT,
        ) as consumer:
            consumer.subscribe("large", "*", Seen())
            async with Admin(console_broker.namesrv) as admin, asyncio.timeout(60):
                while "%DLQ%large-group" not in await admin.topics(everything=True):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        return sent

    return asyncio.run(send())


def look_up(api: httpx.Client, **query: Any) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = api.get(f"{CLUSTER}/messages", params=query).json()["messages"]
    return messages


def events(api: httpx.Client, path: str) -> list[dict[str, Any]]:
    with api.stream("GET", path) as answer:
        return [json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: ")]


def test_a_list_shows_the_beginning_and_one_message_the_reason(
    api: httpx.Client, sent: list[SendResult]
) -> None:
    listed = look_up(api, topic="large", fromMs=0)
    assert [one["bodySize"] for one in listed] == [5, None, 4]
    assert [one["bodyProblem"] for one in listed] == [None, None, None]
    assert base64.b64decode(listed[1]["body"]) == LARGE[: 4 << 10]
    for way in (
        {"id": sent[1].offset_message_id},
        {"topic": "large", "uniqueId": sent[1].message_id},
        {"topic": "large", "broker": "broker-a", "queueId": 0, "offset": 1},
    ):
        [alone] = look_up(api, **way)
        assert OPTION in alone["bodyProblem"], way
        assert (alone["isCut"], base64.b64decode(alone["body"])) == (True, LARGE[: 64 << 10])


def test_the_life_of_a_message_with_a_large_body_is_told(api: httpx.Client, sent: list[SendResult]) -> None:
    life = api.get(f"{CLUSTER}/message-life?topic=large&uniqueId={sent[1].message_id}").json()
    assert OPTION in life["message"]["bodyProblem"]
    assert "stored" in [one["step"] for one in life["events"]]


def test_a_search_says_which_bodies_it_did_not_look_into(api: httpx.Client, sent: list[SendResult]) -> None:
    nothing = events(api, f"{CLUSTER}/topics/large/search?text=nowhere")[-1]
    assert (nothing["end"], nothing["unread"]) == ("all", 1)
    assert OPTION in nothing["unreadReason"]
    found = [
        one
        for event in events(api, f"{CLUSTER}/topics/large/search?text=needle")
        for one in event["messages"]
    ]
    assert [one["queueOffset"] for one in found] == [1]
    assert base64.b64decode(found[0]["body"]).startswith(b"needle")


def test_bodies_are_inflated_beside_the_event_loop(
    strict: RunningConsole, api: httpx.Client, sent: list[SendResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    inside: list[bool] = []
    inflated_pieces = bodies.inflated_pieces

    def noting(*arguments: Any) -> Iterator[bytes]:
        try:
            asyncio.get_running_loop()
            inside.append(True)
        except RuntimeError:
            inside.append(False)
        return inflated_pieces(*arguments)

    monkeypatch.setattr(bodies, "inflated_pieces", noting)
    look_up(api, topic="large", fromMs=0)
    look_up(api, id=sent[1].offset_message_id)
    events(api, f"{CLUSTER}/topics/large/search?text=needle")
    assert len(inside) >= 3
    assert not any(inside)


def test_the_messages_of_a_list_have_a_budget_together(
    api: httpx.Client, sent: list[SendResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "SHOWN_BYTES", 64 << 10)
    monkeypatch.setattr(bodies.BodyBudget.__init__, "__defaults__", (LIMIT, 1))
    first, large, last = look_up(api, topic="large", fromMs=0)
    assert (first["bodyProblem"], last["bodyProblem"]) == (None, None)
    assert "look the message up by itself" in large["bodyProblem"]


def test_a_dead_letter_with_a_large_body_is_shown_with_the_reason(
    api: httpx.Client, sent: list[SendResult]
) -> None:
    clusters = events(api, f"{CLUSTER}/dead-letters/large-group/clusters")[-1]["clusters"]
    [place] = clusters[0]["places"]
    text = f"{place['broker']}/{place['queueId']}/{place['queueOffset']}"
    [letter] = api.get(f"{CLUSTER}/dead-letters/large-group/letters", params={"place": text}).json()[
        "letters"
    ]
    assert OPTION in letter["message"]["bodyProblem"]
