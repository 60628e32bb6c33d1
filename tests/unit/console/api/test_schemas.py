import asyncio
import json

import httpx
import pytest

from orbitmq import Message, Producer
from orbitmq.testing import LocalBroker
from tests.kit.order_schemas import ORDER, avro_body, avro_schema, protobuf_schema
from tests.kit.running_console import RunningConsole

TOPIC = "/api/clusters/here/topics/coded"


@pytest.fixture(scope="module", autouse=True)
def coded(console_broker: LocalBroker) -> None:
    async def send() -> None:
        async with Producer("p", console_broker.namesrv) as producer:
            for body in (avro_body(), b"no avro", b"\0" * 2_000_000):
                await producer.send(Message("coded", body))

    console_broker.create_topic("coded", 1)
    asyncio.run(send())


def test_bodies_are_shown_by_the_schema_of_their_topic_until_it_is_removed(
    api: httpx.Client, console: RunningConsole
) -> None:
    assert api.get(f"{TOPIC}/schema").json() == {"schema": None}
    assert api.put(f"{TOPIC}/schema", json=avro_schema()).status_code == 200
    by_place = "/api/clusters/here/messages?topic=coded&broker=broker-a&queueId=0&offset="
    [good] = api.get(f"{by_place}0").json()["messages"]
    assert (good["decodedAs"], json.loads(good["decoded"])) == ("avro", ORDER)
    [bad] = api.get(f"{by_place}1").json()["messages"]
    assert bad["decoded"] is None
    assert "not of the Avro schema" in bad["decodeError"]
    [large] = api.get(f"{by_place}2").json()["messages"]
    assert "are not decoded" in large["decodeError"]
    entry = api.get("/api/audit").json()["entries"][0]
    assert (entry["action"], entry["after"]["kind"]) == ("put_schema", "avro")
    stored = json.loads(console.console.settings.schemas_file.read_text())
    assert stored["here"]["coded"]["kind"] == "avro"
    assert api.request("DELETE", f"{TOPIC}/schema", json={}).status_code == 200
    assert api.get(f"{by_place}0").json()["messages"][0]["decodedAs"] is None


@pytest.mark.parametrize("schema", [{"kind": "avro", "text": "{"}, {**protobuf_schema(), "messageType": "x"}])
def test_a_bad_schema_is_refused_with_the_place_and_changes_nothing(
    api: httpx.Client, schema: dict[str, str]
) -> None:
    answer = api.put(f"{TOPIC}/schema", json=schema)
    assert (answer.status_code, answer.json()["code"]) == (422, "SCHEMA")
    assert api.get(f"{TOPIC}/schema").json() == {"schema": None}
