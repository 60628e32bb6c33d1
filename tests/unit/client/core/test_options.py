from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import pytest

from orbitmq.client.consumer.consumer import PushConsumer
from orbitmq.client.core.dead_letter_policy import DeadLetterPolicy
from orbitmq.client.core.errors import InvalidArgument
from orbitmq.client.core.options import ClientOptions, ConsumerOptions, ProducerOptions
from orbitmq.protocol.names import IllegalName


def test_the_name_server_comes_from_the_environment_unless_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    assert ClientOptions("g").namesrv == "127.0.0.1:9876"
    monkeypatch.setenv("NAMESRV_ADDR", "a:1;b:2")
    assert ClientOptions("g").namesrv == "a:1;b:2"
    assert ClientOptions("g", "c:3").namesrv == "c:3"


@pytest.mark.parametrize("group", ["", "has space", "x" * 121, "DEFAULT_PRODUCER", "DEFAULT_CONSUMER"])
def test_groups_that_no_broker_takes(group: str) -> None:
    with pytest.raises(IllegalName):
        ClientOptions(group)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (ClientOptions, {"namesrv": "no port"}),
        (ProducerOptions, {"send_msg_timeout_ms": 0}),
        (ProducerOptions, {"retry_times_when_send_failed": -1}),
        (ProducerOptions, {"max_message_size_bytes": 17 << 20}),
        (ConsumerOptions, {"concurrency": 0}),
        (ConsumerOptions, {"concurrency": 1001}),
        (ConsumerOptions, {"consume_concurrently_max_span": 65_536}),
        (ConsumerOptions, {"pull_threshold_for_queue": 0}),
        (ConsumerOptions, {"pull_threshold_size_for_queue_mib": 1025}),
        (ConsumerOptions, {"pull_batch_size": 1025}),
        (ConsumerOptions, {"pull_interval_ms": 65_536}),
        (ConsumerOptions, {"suspend_current_queue_time_ms": 9}),
        (ConsumerOptions, {"rebalance_interval_ms": 0}),
        (ConsumerOptions, {"persist_consumer_offset_interval_ms": 0}),
        (ConsumerOptions, {"pull_time_delay_when_exception_ms": 0}),
        (ConsumerOptions, {"broker_suspend_max_time_ms": -1}),
        (ConsumerOptions, {"consume_timeout_ms": 0}),
        (PushConsumer, {"close_timeout_ms": -1}),
        (ConsumerOptions, {"max_reconsume_times": -2}),
        (ConsumerOptions, {"allocate_message_queue_strategy": "NONE"}),
        (ConsumerOptions, {"consumer_timeout_when_suspend_ms": 15_000}),
    ],
)
def test_values_out_of_range_are_refused_at_once(
    kind: type[ClientOptions], options: dict[str, object]
) -> None:
    with pytest.raises(ValueError, match=r"."):
        kind("g", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"ordered": True, "ordered_by_key": True}, "ordered=True or ordered_by_key=True"),
        ({"ordered_by_key": True, "broadcasting": True}, "ordered_by_key=True or broadcasting=True"),
        ({"ordered_by_key": True, "max_in_flight_per_key": 1}, "not for ordered consumers"),
        (
            {"dead_letter_policy": DeadLetterPolicy(when_exhausted="stay")},
            "is for consumers with ordered=True",
        ),
        ({"dead_letter_policy": DeadLetterPolicy(), "max_reconsume_times": 3}, "or dead_letter_policy"),
    ],
)
def test_options_that_exclude_each_other_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        ConsumerOptions("g", **options)


def test_every_option_has_a_unit_or_none_and_the_defaults_are_apaches() -> None:
    producer, consumer = ProducerOptions("g"), ConsumerOptions("g")
    assert (producer.send_msg_timeout_ms, producer.retry_times_when_send_failed) == (3000, 2)
    assert (producer.compress_msg_body_over_bytes, producer.compress_level) == (4096, 5)
    assert (producer.max_message_size_bytes, producer.default_topic_queue_nums) == (4 << 20, 4)
    assert (consumer.concurrency, consumer.pull_batch_size, consumer.pull_threshold_for_queue) == (
        20,
        32,
        1000,
    )
    assert (consumer.consume_concurrently_max_span, consumer.consume_timeout_ms) == (2000, 900_000)
    assert consumer.consume_from_where.name == "CONSUME_FROM_LAST_OFFSET"
    assert not [row.name for row in fields(consumer) if re.search("millis|seconds", row.name)]
