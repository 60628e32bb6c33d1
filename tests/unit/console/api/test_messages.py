import asyncio
import base64
from urllib.parse import urlencode

import httpx
import pytest

from orbitmq import Message, Producer, SendResult
from orbitmq.testing import LocalBroker

PATH = "/api/clusters/here/messages"
BODIES = [b'{"a": 1}', b"\x00\xff" * 10, b"x" * 70_000, b" "]


@pytest.fixture(scope="module")
def sent(console_broker: LocalBroker) -> list[SendResult]:
    """Four messages in one queue."""

    async def send() -> list[SendResult]:
        console_broker.create_topic("found", 1)
        async with Producer("p", console_broker.namesrv) as producer:
            return [
                await producer.send(
                    Message("found", body, keys=f"k{number}", tags="t", properties={"p": "v"})
                )
                for number, body in enumerate(BODIES)
            ]

    return asyncio.run(send())


def look_up(api: httpx.Client, **query: object) -> httpx.Response:
    return api.get(f"{PATH}?{urlencode(query)}")


def test_every_way_leads_to_the_same_message(api: httpx.Client, sent: list[SendResult]) -> None:
    one = sent[0]
    ways = [
        {"id": one.offset_message_id},
        {"topic": "found", "uniqueId": one.message_id},
        {"topic": "found", "key": "k0"},
        {"topic": "found", "broker": "broker-a", "queueId": 0, "offset": 0},
        {"topic": "found", "fromMs": 0, "max": 1},
    ]
    for way in ways:
        [found] = look_up(api, **way).json()["messages"]
        assert (found["id"], found["uniqueId"]) == (one.offset_message_id, one.message_id), way
        assert base64.b64decode(found["body"]) == BODIES[0]
        assert (found["tags"], found["keys"], found["properties"]["p"]) == ("t", ["k0"], "v")


def test_long_bodies_are_cut_in_lists_and_whole_alone(api: httpx.Client, sent: list[SendResult]) -> None:
    listed = look_up(api, topic="found", fromMs=0).json()["messages"]
    assert [one["queueOffset"] for one in listed] == [0, 1, 2, 3]
    assert (listed[2]["isCut"], listed[2]["bodySize"], len(base64.b64decode(listed[2]["body"]))) == (
        True, 70_000, 4096,
    )  # fmt: skip
    [alone] = look_up(api, id=sent[2].offset_message_id).json()["messages"]
    assert (alone["isCut"], len(base64.b64decode(alone["body"]))) == (False, 70_000)


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ({}, 422, "INVALID"),
        ({"topic": "found"}, 422, "INVALID"),
        ({"key": "k0"}, 422, "INVALID"),
        ({"topic": "found", "key": "nothing"}, 404, "NO_MESSAGE"),
        ({"topic": "found", "broker": "broker-a", "queueId": 0, "offset": 99}, 404, "NO_MESSAGE"),
        ({"topic": "found", "broker": "nowhere", "queueId": 0, "offset": 0}, 404, "NO_MESSAGE"),
        ({"topic": "nothing", "fromMs": 0}, 404, "TOPIC_NOT_EXIST"),
        ({"id": "nonsense"}, 422, "MALFORMED"),
        ({"topic": "found", "fromMs": -1}, 422, "INVALID"),
        ({"topic": "found", "fromMs": 0, "max": 1000}, 422, "INVALID"),
    ],
)
def test_what_cannot_be_found_says_why(
    api: httpx.Client, sent: list[SendResult], query: dict[str, object], status: int, code: str
) -> None:
    answer = look_up(api, **query)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_a_time_after_the_last_message_finds_none(api: httpx.Client, sent: list[SendResult]) -> None:
    assert look_up(api, topic="found", fromMs=4_000_000_000_000).json() == {"messages": []}
