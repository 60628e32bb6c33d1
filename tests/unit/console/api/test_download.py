import asyncio
import csv
import io
import json

import httpx
import pytest

from orbitmq import Message, Producer
from orbitmq.testing import LocalBroker

CLUSTER = "/api/clusters/here"


@pytest.fixture(scope="module", autouse=True)
def filled(console_broker: LocalBroker) -> None:
    async def fill() -> None:
        async with Producer("p", console_broker.namesrv) as producer:
            for number, body in enumerate((b"=1+1", b"\xff\xfe", 'two "lines"\nof 中文'.encode())):
                await producer.send(Message("saved", body, keys=f"k-{number}", tags="=cmd"))

    console_broker.create_topic("saved", 1)
    console_broker.create_topic("saved-too", 1)
    asyncio.run(fill())


def test_a_list_is_a_table_with_a_name_and_can_be_filtered(api: httpx.Client) -> None:
    answer = api.get(f"{CLUSTER}/topics?kind=normal&format=csv&filter=SAVED")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == 'attachment; filename="here-topics.csv"'
    assert list(csv.reader(io.StringIO(answer.text))) == [
        ["name", "kind"],
        ["saved", "normal"],
        ["saved-too", "normal"],
    ]


def test_messages_have_their_text_and_no_cell_is_a_formula(api: httpx.Client) -> None:
    path = f"{CLUSTER}/messages?topic=saved&fromMs=1"
    rows = list(csv.DictReader(io.StringIO(api.get(f"{path}&format=csv").text)))
    assert [one["text"] for one in rows] == ["'=1+1", "", 'two "lines"\nof 中文']
    assert {one["tags"] for one in rows} == {"'=cmd"}
    lines = [json.loads(line) for line in api.get(f"{path}&format=ndjson").text.splitlines()]
    assert [one["text"] for one in lines] == ["=1+1", None, 'two "lines"\nof 中文']
    assert [one["keys"] for one in lines] == [["k-0"], ["k-1"], ["k-2"]]


def test_a_search_is_written_as_it_finds(api: httpx.Client) -> None:
    path = f"{CLUSTER}/topics/saved/search?text=lines"
    [line] = api.get(f"{path}&format=ndjson").text.splitlines()
    assert json.loads(line)["queueOffset"] == 2
    missing = api.get(f"{CLUSTER}/topics/nothing/search?text=x&format=csv")
    assert (missing.status_code, missing.json()["code"]) == (404, "TOPIC_NOT_EXIST")


def test_another_list_of_the_answer_is_asked_for_by_name(api: httpx.Client) -> None:
    routes = api.get(f"{CLUSTER}/topics/saved?format=ndjson&rows=routes").text.splitlines()
    assert [json.loads(line)["broker"] for line in routes] == ["broker-a"]
    unknown = api.get(f"{CLUSTER}/topics/saved?format=ndjson&rows=secrets").json()
    assert (unknown["code"], unknown["field"]) == ("INVALID", "rows")
    assert api.get(f"{CLUSTER}/topics/saved?format=xlsx").json()["field"] == "format"


def test_downloads_are_described(api: httpx.Client) -> None:
    document = api.get("/api/openapi.json").json()
    topics = document["paths"]["/api/clusters/{cluster}/topics"]["get"]
    assert {one["name"] for one in topics["parameters"]} >= {"format", "rows", "filter"}
    assert set(topics["responses"]["200"]["content"]) == {
        "application/json",
        "text/csv",
        "application/x-ndjson",
    }
