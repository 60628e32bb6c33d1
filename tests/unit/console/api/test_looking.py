import asyncio
import base64
import json
from typing import Any

import httpx
import pytest

from orbitmq import Message, Producer
from orbitmq.testing import LocalBroker

TOPIC = "/api/clusters/here/topics/looked"


@pytest.fixture(scope="module", autouse=True)
def looked(console_broker: LocalBroker) -> None:
    console_broker.create_topic("looked", 2)
    send(console_broker, [Message("looked", f"hay {number}", tags="t") for number in range(80)])
    send(console_broker, [Message("looked", b"a Needle" + b"x" * 10_000, tags="n")])


def send(broker: LocalBroker, messages: list[Message]) -> None:
    async def act() -> None:
        async with Producer("p", broker.namesrv) as producer:
            await producer.send_all(messages)

    asyncio.run(act())


def events(answer: httpx.Response) -> Any:
    for line in answer.iter_lines():
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


def test_a_search_finds_the_text_and_cuts_long_bodies(api: httpx.Client) -> None:
    with api.stream("GET", f"{TOPIC}/search?text=needle") as answer:
        found = list(events(answer))
    assert (found[-1]["done"], found[-1]["end"], found[-1]["scanned"]) == (True, "all", 81)
    [message] = [one for event in found for one in event["messages"]]
    assert base64.b64decode(message["body"]).startswith(b"a Needle")
    assert (message["isCut"], message["bodySize"], message["tags"]) == (True, 10_008, "n")


def test_a_budget_ends_a_search(api: httpx.Client) -> None:
    with api.stream("GET", f"{TOPIC}/search?text=needle&budget=10") as answer:
        last = list(events(answer))[-1]
    assert (last["end"], last["scanned"], last["total"]) == ("budget", 10, 81)


def test_a_tail_shows_what_comes_in(api: httpx.Client, console_broker: LocalBroker) -> None:
    with api.stream("GET", f"{TOPIC}/tail?tag=new") as answer:
        told = events(answer)
        assert next(told)["messages"] == []
        send(console_broker, [Message("looked", b"1", tags="new"), Message("looked", b"2", tags="other")])
        seen, messages = 0, []
        while seen < 2:
            event = next(told)
            seen += event["seen"]
            messages += event["messages"]
    assert [base64.b64decode(one["body"]) for one in messages] == [b"1"]


@pytest.mark.parametrize("way", ["tail", "search"])
@pytest.mark.parametrize(
    ("path", "code"),
    [("looked/{way}?sql=price%20%3E", "FILTER"), ("never-made/{way}?text=x", "TOPIC_NOT_EXIST")],
)
def test_what_cannot_be_looked_for_ends_the_stream_with_a_problem(
    api: httpx.Client, way: str, path: str, code: str
) -> None:
    with api.stream("GET", f"/api/clusters/here/topics/{path.format(way=way)}") as answer:
        text = "".join(answer.iter_text())
    assert text.startswith("event: problem\n")
    assert code in text


@pytest.mark.parametrize(
    "query",
    ["tail?rate=0", "tail?rate=101", "search?budget=0", "search?max=201", f"search?text={'x' * 1001}"],
)
def test_bounds_hold(api: httpx.Client, query: str) -> None:
    assert api.get(f"{TOPIC}/{query}").status_code == 422
