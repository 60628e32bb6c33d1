"""Users without the right to read bodies, and fields that are masked for all: no answer tells more."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from orbitmq import Message, Producer
from orbitmq.console.security.roles import Role
from orbitmq.console.security.users import set_user
from orbitmq.testing import LocalBroker
from tests.kit.dead_letters import origin, plant
from tests.kit.order_schemas import avro_body, avro_schema
from tests.kit.running_console import RunningConsole

TOPIC = "/api/clusters/here/topics/hidden"
BODIES = [b'{"customer": "Ann", "card": "4111"}', b"card 4111", b"nothing of it"]


@pytest.fixture(scope="module")
def hiding(console_broker: LocalBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    console_broker.create_topic("hidden", 1)
    console_broker.create_topic("hidden-coded", 1)

    async def send() -> None:
        async with Producer("p", console_broker.namesrv) as producer:
            for body in BODIES:
                await producer.send(Message("hidden", body, keys="k", properties={"Card": "4111", "p": "v"}))
            await producer.send(Message("hidden-coded", avro_body()))
        own = origin("hidden", exception="KeyError", CARD="4111")
        await plant(console_broker.namesrv, "hidden-group", 1, own, BODIES[0])

    asyncio.run(send())
    folder = tmp_path_factory.mktemp("hiding")
    set_user(folder / "users", "ada", Role.ADMIN, "password of ada")
    set_user(folder / "users", "olga", Role.OPERATOR, "password of olga", reads_bodies=False)
    with RunningConsole(folder, here=console_broker.namesrv, masked_fields=("card", "customer")) as running:
        yield running


def log_in(console: RunningConsole, name: str) -> httpx.Client:
    client = console.client()
    answer = client.post("/api/login", json={"user": name, "password": f"password of {name}"}).json()
    client.headers["X-CSRF-Token"] = answer["csrfToken"]
    assert (answer["readsBodies"], answer["maskedFields"]) == (name == "ada", ["card", "customer"])
    return client


def messages(answer: httpx.Response) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = answer.json()["messages"]
    return found


def bodies(answer: httpx.Response) -> list[str]:
    return [base64.b64decode(one["body"]).decode() for one in messages(answer)]


@pytest.mark.parametrize("path", [f"{TOPIC}/messages", "/api/clusters/here/messages?topic=hidden&key=k"])
def test_fields_are_masked_for_everybody(hiding: RunningConsole, path: str) -> None:
    answer = log_in(hiding, "ada").get(path)
    assert sorted(bodies(answer)) == ["", "nothing of it", '{"customer":"***","card":"***"}']
    assert all(one["properties"]["Card"] == "***" and one["isMasked"] for one in messages(answer))
    assert "4111" not in answer.text
    [reason] = [one["bodyProblem"] for one in messages(answer) if one["bodyProblem"]]
    assert "not JSON" in reason


@pytest.mark.parametrize("path", [f"{TOPIC}/messages", "/api/clusters/here/messages?topic=hidden&key=k"])
def test_users_without_the_right_see_everything_but_bodies(hiding: RunningConsole, path: str) -> None:
    answer = log_in(hiding, "olga").get(path)
    assert bodies(answer) == ["", "", ""]
    assert all("you may not read bodies" in one["bodyProblem"] for one in messages(answer))
    assert sorted(one["bodySize"] for one in messages(answer)) == sorted(len(body) for body in BODIES)


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [("ada", "4111", 0), ("ada", "nothing of", 1), ("olga", "nothing of", 0), ("olga", "4111", 0)],
)
def test_a_search_finds_no_more_than_is_shown(
    hiding: RunningConsole, name: str, text: str, found: int
) -> None:
    client = log_in(hiding, name)
    assert len(messages(client.get(f"{TOPIC}/messages", params={"text": text}))) == found
    lines = client.get(f"{TOPIC}/search", params={"text": text}).text.splitlines()
    events = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
    assert sum(len(event["messages"]) for event in events) == found
    by_property = client.get(f"{TOPIC}/search", params={"sql": "Card <> '4111'", "format": "ndjson"}).text
    assert by_property.count("\n") == 3, "a filter sees the mask"


def test_values_that_a_schema_decodes_are_masked_and_their_bytes_are_not_shown(
    hiding: RunningConsole,
) -> None:
    client = log_in(hiding, "ada")
    path = "/api/clusters/here/topics/hidden-coded"
    assert client.put(f"{path}/schema", json=avro_schema()).status_code == 200
    [one] = messages(client.get(f"{path}/messages"))
    assert json.loads(one["decoded"])["customer"] == "***"
    assert one["body"] == ""
    [other] = messages(log_in(hiding, "olga").get(f"{path}/messages"))
    assert (other["body"], other["decoded"]) == ("", None)


def test_dead_letters_are_masked_and_hidden_as_all_messages_are(hiding: RunningConsole) -> None:
    path = "/api/clusters/here/dead-letters/hidden-group"
    for name, body in (("ada", b'{"customer":"***","card":"***"}'), ("olga", b"")):
        client = log_in(hiding, name)
        text = client.get(f"{path}/clusters").text
        [place] = json.loads(text.splitlines()[-2][6:])["clusters"][0]["places"]
        where = f"{place['broker']}/{place['queueId']}/{place['queueOffset']}"
        answer = client.get(f"{path}/letters", params={"place": where})
        [letter] = answer.json()["letters"]
        assert base64.b64decode(letter["message"]["body"]) == body
        assert letter["own"]["CARD"] == "***"
        assert "4111" not in answer.text
