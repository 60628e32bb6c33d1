"""Figures of brokers, and producers that are connected to them."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx

from orbitmq import Message, Producer
from orbitmq.testing import LocalBroker

CLUSTER = "/api/clusters/here"


def test_a_broker_tells_its_figures(api: httpx.Client) -> None:
    [broker] = api.get(f"{CLUSTER}/servers").json()["brokers"]
    path = f"{CLUSTER}/brokers/{broker['address']}/status"
    figures = {one["name"]: one["value"] for one in api.get(path).json()["figures"]}
    assert figures["brokerVersionDesc"]
    assert int(figures["msgPutTotalTodayNow"]) >= 0
    assert "brokerVersionDesc" in api.get(f"{path}?format=csv&filter=brokerVersionDesc").text
    gone = api.get(f"{CLUSTER}/brokers/127.0.0.1:1/status")
    assert (gone.status_code, gone.json()["code"]) == (504, "NO_ANSWER")


def test_producers_are_listed_while_they_are_connected(
    api: httpx.Client, console_broker: LocalBroker
) -> None:
    console_broker.create_topic("produced", 1)

    async def look() -> None:
        options = {"heartbeat_broker_interval_ms": 1000}
        async with (
            Producer("listed-producers", console_broker.namesrv, **options) as producer,
            asyncio.timeout(60),
        ):
            listed: list[dict[str, Any]] = []
            while not listed:
                await producer.send(Message("produced", b"x"))
                found = (await asyncio.to_thread(api.get, f"{CLUSTER}/producers")).json()
                assert found["errors"] == []
                listed = [one for one in found["producers"] if one["group"] == "listed-producers"]
            [one] = listed
            assert one["brokers"] == ["broker-a"]
            assert one["lastMs"] > 0
            assert one["address"].startswith("127.0.0.1")

    asyncio.run(look())
