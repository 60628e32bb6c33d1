import asyncio
import base64
import random

import httpx
import pytest

from orbitmq import Admin
from orbitmq.console.api import topics
from orbitmq.testing import LocalBroker

TOPICS = "/api/clusters/here/topics"


def test_a_topic_lives_from_creation_to_deletion(api: httpx.Client, console_broker: LocalBroker) -> None:
    path = f"{TOPICS}/lives"
    assert api.put(
        path, json={"queues": 3, "create": True, "attributes": {"message.type": "NORMAL"}}
    ).json() == {"brokers": ["broker-a"]}
    again = api.put(path, json={"queues": 3, "create": True})
    assert (again.status_code, again.json()["code"]) == (409, "TOPIC_EXISTS")
    assert {"name": "lives", "kind": "normal"} in api.get(TOPICS).json()["topics"]
    detail = api.get(path).json()
    assert len(detail["queues"]) == 3
    assert detail["attributes"] == {"message.type": "NORMAL"}
    assert api.put(path, json={"queues": 5, "perm": 4}).status_code == 200
    [route] = api.get(path).json()["routes"]
    assert (route["writeQueues"], route["perm"]) == (5, 4)
    assert api.request("DELETE", path, json={"confirm": "lives"}).status_code == 200
    assert api.get(path).status_code == 404


def test_queues_come_page_by_page_and_of_very_many_each_is_asked_for_alone(
    api: httpx.Client, console_broker: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    console_broker.create_topic("paged", 7)
    api.post(f"{TOPICS}/paged/messages", json={"text": "x", "orderKey": "o"})
    whole = api.get(f"{TOPICS}/paged").json()
    assert (len(whole["queues"]), whole["queueCount"], whole["messages"]) == (7, 7, 1)
    pages = [api.get(f"{TOPICS}/paged/queues?skip={skip}&max=3").json() for skip in (0, 3, 6, 9)]
    assert [queue for one in pages for queue in one["queues"]] == whole["queues"]
    assert [one["total"] for one in pages] == [7, 7, 7, 7]
    monkeypatch.setattr(topics, "MOST_SUMMED", 6)
    wide = api.get(f"{TOPICS}/paged").json()
    assert (wide["queues"], wide["queueCount"], wide["messages"]) == ([], 7, None)
    [figures] = api.get("/api/clusters/here/topic-figures?topic=paged").json()["topics"]
    assert (figures["queues"], figures["messages"]) == (7, None)
    alone = [api.get(f"{TOPICS}/paged/queues?skip={skip}&max=5").json()["queues"] for skip in (0, 5)]
    without_times = [{**one, "lastMs": 0} for one in whole["queues"]]
    assert alone == [without_times[:5], without_times[5:]]


def test_what_is_published_arrives_as_it_was_written(api: httpx.Client, console_broker: LocalBroker) -> None:
    console_broker.create_topic("published", 2)
    text = "<script>alert(1)</script> \N{PARTY POPPER}"
    sent = api.post(
        f"{TOPICS}/published/messages",
        json={"text": text, "tag": "t", "keys": ["k1", "k2"], "properties": {"a": "b"}, "orderKey": "o"},
    ).json()
    assert sent["status"] == "SEND_OK"

    async def read() -> None:
        async with Admin(console_broker.namesrv) as admin:
            [found] = await admin.query_messages("published", "k2")
        assert found.body.decode() == text
        assert (found.tags, found.property_map()["a"]) == ("t", "b")

    asyncio.run(read())
    raw = base64.b64encode(bytes(range(256))).decode()
    assert api.post(f"{TOPICS}/published/messages", json={"base64": raw}).status_code == 200
    figures = api.get("/api/clusters/here/topic-figures?topic=published&topic=nothing").json()["topics"]
    assert (figures[0]["messages"], figures[0]["queues"]) == (2, 2)
    assert figures[1]["messages"] is None
    assert "nothing" in figures[1]["error"]


LARGE = base64.b64encode(random.Random(1).randbytes((4 << 20) + 1)).decode()
"""What no compression makes smaller."""


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 422, "BODY"),
        ({"text": "x", "base64": ""}, 422, "BODY"),
        ({"base64": "%%%"}, 422, "BASE64"),
        ({"text": "x", "delayLevel": 19}, 422, "INVALID"),
        ({"text": "x", "properties": {"TAGS": "x"}}, 422, "REFUSED_BY_CLIENT"),
        ({"base64": LARGE}, 422, "REFUSED_BY_CLIENT"),
    ],
)
def test_messages_that_cannot_be_sent_say_why(
    api: httpx.Client, console_broker: LocalBroker, body: dict[str, object], status: int, code: str
) -> None:
    console_broker.create_topic("refusing", 1)
    answer = api.post(f"{TOPICS}/refusing/messages", json=body)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_a_misspelt_topic_is_not_created_by_a_message(api: httpx.Client) -> None:
    answer = api.post(f"{TOPICS}/misspelt/messages", json={"text": "x"})
    assert (answer.status_code, answer.json()["code"]) == (404, "TOPIC_NOT_EXIST")
    assert "misspelt" not in [one["name"] for one in api.get(TOPICS).json()["topics"]]


def test_illegal_names_and_the_brokers_own_topics_are_refused(api: httpx.Client) -> None:
    assert api.put(f"{TOPICS}/a b", json={}).json()["code"] == "ILLEGAL_NAME"
    answer = api.request("DELETE", f"{TOPICS}/TBW102", json={"confirm": "TBW102"})
    assert (answer.status_code, answer.json()["code"]) == (409, "SYSTEM_TOPIC")


def test_figures_are_for_one_screen_at_a_time(api: httpx.Client) -> None:
    names = "&".join(f"topic=t{number}" for number in range(61))
    assert api.get(f"/api/clusters/here/topic-figures?{names}").json()["code"] == "TOO_MANY"
