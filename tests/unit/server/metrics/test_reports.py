"""The pages of running servers, as a probe and as Prometheus see them."""

import asyncio
import gzip
import json
import logging
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from orbitmq.broker.options import BROKER_TABLE
from orbitmq.options import InvalidValue, Layer, RefusedValue
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.names import SHARDING_KEY
from orbitmq.protocol.records.properties import encode_properties
from orbitmq.protocol.requests.admin import UpdateBrokerConfig
from orbitmq.protocol.requests.offset import UpdateConsumerOffset
from orbitmq.protocol.requests.pull import PullMessage
from orbitmq.protocol.requests.topic import UpdateAndCreateTopic
from orbitmq.server.lifecycle.log_levels import LogLevels
from orbitmq.server.turn.listener import free_ports
from tests.kit.running_standalone import Running, running
from tests.kit.store import full_disk

Found = dict[tuple[str, frozenset[tuple[str, str]]], float]


async def page(port: int, path: str, host: str = "127.0.0.1", **headers: str) -> tuple[int, bytes, Any]:
    def ask() -> tuple[int, bytes, Any]:
        request = urllib.request.Request(f"http://{host}:{port}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read(), answer.headers
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read(), error.headers

    return await asyncio.to_thread(ask)


class Scraped:
    """The samples of one scrape."""

    def __init__(self, text: str) -> None:
        self.samples = [one for family in text_string_to_metric_families(text) for one in family.samples]
        self.names = {one.name for one in self.samples}

    def value(self, name: str, **labels: str) -> float:
        [found] = [
            one.value for one in self.samples if one.name == name and labels.items() <= one.labels.items()
        ]
        return float(found)


async def scrape(port: int) -> Scraped:
    status, body, headers = await page(port, "/metrics")
    assert status == 200
    assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    return Scraped(body.decode())


def metrics_on(port: int, **more: object) -> dict[str, object]:
    return {"metricsExporterType": "PROM", "metricsPromExporterPort": port, **more}


async def pull(broker: Running, group: str, topic: str, offset: int = 0, most: int = 32) -> None:
    await broker.ask(
        PullMessage(
            consumer_group=group, topic=topic, queue_id=0, queue_offset=offset, max_msg_nums=most, sys_flag=4,
            commit_offset=0, suspend_timeout_millis=0, subscription="*", sub_version=0,
        )
    )  # fmt: skip


async def test_messages_in_and_out_and_what_a_group_has_not_handled(tmp_path: Path) -> None:
    port = free_ports()
    async with running(tmp_path, **metrics_on(port)) as broker:
        for _ in range(5):
            await broker.send("T")
        await broker.send("T", b"x" * 3000)
        await broker.send("T", properties=encode_properties({SHARDING_KEY: "k"}).decode())
        await broker.send("T", properties=encode_properties({"DELAY": "18"}).decode())
        await pull(broker, "G", "T", most=4)
        await broker.ask(UpdateConsumerOffset("G", "T", 0, 3))
        found = await scrape(port)
    common = {"cluster": "DefaultCluster", "node_id": "broker-a", "node_type": "broker"}
    normal = {"topic": "T", "message_type": "normal", "is_system": "false", **common}
    assert found.value("rocketmq_messages_in_total", **normal) == 6
    assert found.value("rocketmq_message_size_bucket", le="1024.0", **normal) == 5
    assert found.value("rocketmq_message_size_bucket", le="4096.0", **normal) == 6
    assert found.value("rocketmq_message_size_count", **normal) == 6
    assert found.value("rocketmq_throughput_in_total", **normal) > 3000
    assert found.value("rocketmq_message_size_sum", **normal) == found.value(
        "rocketmq_throughput_in_total", **normal
    )
    assert found.value("rocketmq_messages_in_total", topic="T", message_type="fifo") == 1
    waiting = {"topic": "SCHEDULE_TOPIC_XXXX", "message_type": "delay", "is_system": "true"}
    assert found.value("rocketmq_messages_in_total", **waiting) == 1
    assert found.value("orbitmq_pending_delayed_messages", level="18") == 1
    group = {"consumer_group": "G", "topic": "T", "is_retry": "false", "is_system": "false"}
    assert found.value("rocketmq_messages_out_total", **group) == 4
    assert found.value("rocketmq_consumer_lag_messages", **group) == 4
    assert found.value("rocketmq_consumer_inflight_messages", **group) == 1
    assert found.value("rocketmq_consumer_ready_messages", **group) == 3
    assert 0 <= found.value("rocketmq_consumer_lag_latency_milliseconds", **group) < 60_000
    queue = {"consumer_group": "G", "topic": "T", "queue_id": "0"}
    assert found.value("orbitmq_consumer_queue_lag_messages", **queue) == 4
    assert 0 <= found.value("orbitmq_consumer_queue_lag_seconds", **queue) < 60
    sent = {"request_code": "send_message", "response_code": "success", "result": "success"}
    assert found.value("rocketmq_rpc_latency_milliseconds_count", **sent) == 8
    assert found.value("orbitmq_store_writable") == 1
    assert found.value("rocketmq_storage_size_bytes", storage_type="local", storage_medium="disk") > 0


async def test_metrics_are_on_the_address_that_options_name(tmp_path: Path) -> None:
    port = free_ports(host="127.0.0.2")
    on = metrics_on(port, metricsPromExporterHost="127.0.0.2")
    async with running(tmp_path, **on):
        status, _, _ = await page(port, "/metrics", "127.0.0.2")
        assert status == 200
        with pytest.raises(urllib.error.URLError):
            await page(port, "/metrics", "127.0.0.1")


@pytest.mark.parametrize("exporter", ["OTLP_GRPC", "LOG"])
def test_other_exporters_are_refused_with_the_reason(exporter: str) -> None:
    with pytest.raises(RefusedValue, match="OpenTelemetry collector"):
        BROKER_TABLE.load([Layer("test", {"metricsExporterType": exporter})])


async def test_without_the_option_nothing_listens(tmp_path: Path) -> None:
    port = free_ports()
    async with running(tmp_path, metricsPromExporterPort=port):
        with pytest.raises(urllib.error.URLError):
            await page(port, "/metrics")


async def test_labels_of_the_options(tmp_path: Path) -> None:
    port = free_ports()
    on = metrics_on(port, metricsLabel="rack:r1, zone:eu", metricsInDelta=True)
    async with running(tmp_path, **on):
        found = await scrape(port)
    labels = {"rack": "r1", "zone": "eu", "aggregation": "delta"}
    assert all(labels.items() <= one.labels.items() for one in found.samples)


@pytest.mark.parametrize("text", ["rack", "rack:r1:x", "9a:b", "a b:c", ":x"])
def test_labels_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(InvalidValue, match="NAME:VALUE"):
        BROKER_TABLE.load([Layer("test", {"metricsLabel": text})])


SWITCHES = {
    "enableRemotingMetrics": "rocketmq_rpc_latency_milliseconds_count",
    "enableMessageStoreMetrics": "rocketmq_storage_size_bytes",
    "enablePopMetrics": "rocketmq_pop_revive_lag_milliseconds",
    "enableConnectionMetrics": "rocketmq_producer_connections",
    "enableTransactionMetrics": "rocketmq_half_messages",
    "enableStatsMetrics": "rocketmq_topic_number",
    "enableRequestMetrics": "rocketmq_messages_in_total",
    "enableLagAndDlqMetrics": "rocketmq_consumer_lag_messages",
}


async def test_every_kind_of_metric_can_be_off(tmp_path: Path) -> None:
    port = free_ports()
    off = dict.fromkeys(SWITCHES, False)
    async with running(tmp_path, **metrics_on(port, **off)) as broker:
        await broker.send("T")
        await pull(broker, "G", "T")
        found = await scrape(port)
    assert not {name for name in found.names if name.startswith("rocketmq_")}
    assert "orbitmq_unflushed_bytes" in found.names
    assert found.names.isdisjoint(SWITCHES.values())


async def test_more_samples_than_allowed_are_added_up(tmp_path: Path) -> None:
    port = free_ports()
    async with running(tmp_path, **metrics_on(port, metricsOtelCardinalityLimit=2)) as broker:
        for number in range(4):
            await broker.send(f"T{number}")
        found = await scrape(port)
    counted = [one for one in found.samples if one.name == "rocketmq_messages_in_total"]
    assert [one.value for one in counted] == [1, 1, 2]
    assert counted[-1].labels["otel_metric_overflow"] == "true"


async def test_open_metrics_and_gzip_for_who_asks(tmp_path: Path) -> None:
    port = free_ports()
    async with running(tmp_path, **metrics_on(port)):
        accept = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"
        status, body, headers = await page(port, "/metrics", accept=accept, **{"accept-encoding": "gzip"})
    assert status == 200
    assert headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert gzip.decompress(body).endswith(b"# EOF\n")


async def test_creating_a_topic_and_a_refusal_take_time_too(tmp_path: Path) -> None:
    port = free_ports()
    async with running(tmp_path, **metrics_on(port)) as broker:
        create = UpdateAndCreateTopic(
            topic="N", default_topic="TBW102", read_queue_nums=1, write_queue_nums=1, perm=6,
            topic_filter_type="SINGLE_TAG", topic_sys_flag=0, order=False,
        )  # fmt: skip
        await broker.ask(create)
        with pytest.raises(BrokerRefused):
            await pull(broker, "G", "none")
        found = await scrape(port)
    created = {"invocation_status": "success", "is_system": "false"}
    assert found.value("rocketmq_topic_create_execution_time_milliseconds_count", **created) == 1
    refused = {"request_code": "pull_message", "response_code": "topic_not_exist"}
    assert found.value("rocketmq_rpc_latency_milliseconds_count", **refused) == 1


async def test_a_held_pull_counts_as_long_polling(tmp_path: Path) -> None:
    port = free_ports()
    async with running(tmp_path, **metrics_on(port)) as broker:
        await broker.send("T")
        held = PullMessage(
            consumer_group="G", topic="T", queue_id=0, queue_offset=1, max_msg_nums=1, sys_flag=6,
            commit_offset=0, suspend_timeout_millis=20_000, subscription="*", sub_version=0,
        )  # fmt: skip
        waiting = asyncio.create_task(broker.ask(held, 20_000))
        while (await scrape(port)).value("orbitmq_held_requests") != 1:
            pass
        await broker.send("T")
        await waiting
        found = await scrape(port)
    held_ones = {"is_long_polling": "true", "request_code": "pull_message", "response_code": "success"}
    assert found.value("rocketmq_rpc_latency_milliseconds_count", **held_ones) == 1
    assert found.value("orbitmq_held_requests") == 0


async def test_health_of_a_broker_that_cannot_write(tmp_path: Path) -> None:
    port = free_ports()
    async with running(tmp_path, healthPort=port, healthHost="127.0.0.1") as broker:
        assert (await page(port, "/health/live"))[:2] == (200, b'{"status": "live"}\n')
        assert (await page(port, "/health/ready"))[:2] == (200, b'{"status": "ready"}\n')
        with full_disk(broker.broker.store):
            status, body, _ = await page(port, "/health/ready")
            assert status == 503
            assert json.loads(body) == {"status": "not ready", "reason": "the disk is too full"}
            assert (await page(port, "/health/live"))[0] == 200
        broker.broker._reports.stopping()
        status, body, _ = await page(port, "/health/ready")
        assert (status, json.loads(body)["reason"]) == (503, "stopping")


async def test_health_and_metrics_may_share_a_port(tmp_path: Path) -> None:
    port = free_ports()
    async with running(tmp_path, **metrics_on(port, healthPort=port)):
        assert (await page(port, "/health/ready"))[0] == 200
        assert (await page(port, "/metrics"))[0] == 200


async def test_a_name_server_has_its_own_health(tmp_path: Path) -> None:
    port = free_ports()
    async with running(tmp_path, {"healthPort": port, "healthHost": "127.0.0.1"}):
        assert (await page(port, "/health/ready"))[0] == 200
        status, body, _ = await page(port, "/metrics")
        assert status == 404
        assert b"/health/live, /health/ready" in body


@pytest.fixture
def root_level() -> Iterator[None]:
    root = logging.getLogger()
    level = root.level
    yield
    root.setLevel(level)


async def test_the_level_of_logs_changes_over_the_network(tmp_path: Path, root_level: None) -> None:
    async with running(tmp_path) as broker:
        levels = LogLevels([broker.broker.settings])
        levels.look()
        assert not logging.getLogger().isEnabledFor(logging.DEBUG)
        await broker.ask(UpdateBrokerConfig(body=b"logLevel=debug"))
        levels.look()
        assert logging.getLogger().isEnabledFor(logging.DEBUG)
        refused = await broker.refusal(UpdateBrokerConfig(body=b"logLevel=loud"))
        assert "debug, info, warning, error" in refused.remark
