import csv
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from orbitmq.broker.metrics import Distribution
from orbitmq.broker.stats.metric_families import FAMILIES
from orbitmq.server.metrics.exposition import Exposition, wants_open_metrics

COMMON = {"cluster": "C", "node_id": "b", "node_type": "broker"}
APACHE = Path(__file__).with_name("data") / "apache_metrics.csv"

NOT_TOLD = {"rocketmq_pop_buffer_scan_time_consume_milliseconds"}
"""A thread that looks through a buffer over and over: there is none here."""


def apache() -> dict[str, dict[str, str]]:
    with APACHE.open(newline="") as file:
        return {row["name"]: row for row in csv.DictReader(file)}


def test_names_labels_and_classes_are_apaches() -> None:
    listed = apache()
    ours = {name: family for name, family in FAMILIES.items() if name.startswith("rocketmq_")}
    assert set(ours) == set(listed) - NOT_TOLD
    for name, family in ours.items():
        row = listed[name]
        assert family.kind == row["type"], name
        assert sorted(family.labels) == sorted(
            row["labels"].replace("timer_bound_s ", "timer_bound_s").split()
        ), name
        assert [float(bound) for bound in row["bounds"].split()] == list(family.bounds), name


def test_every_own_metric_says_what_it_means() -> None:
    for family in FAMILIES.values():
        assert family.doc.endswith("."), family.name
        assert family.kind != "counter" or family.name.endswith("_total"), family.name


def filled(most: int = 50_000) -> Exposition:
    exposition = Exposition(COMMON, most)
    exposition.add("rocketmq_topic_number", (), 7)
    exposition.add("rocketmq_messages_in_total", ("false", "normal", 'a "strange"\\\n100%s topic'), 3)
    exposition.add(
        "rocketmq_message_size", ("false", "normal", "T"), Distribution((1, 2, 0, 0, 0, 0, 4), 900)
    )
    exposition.add("orbitmq_unflushed_seconds", (), 0.25)
    return exposition


@pytest.mark.parametrize("open_metrics", [False, True])
def test_prometheus_reads_what_is_written(open_metrics: bool) -> None:
    text = filled().text(open_metrics=open_metrics).decode()
    families = list((parse_open_metrics if open_metrics else parse_text)(text))
    found = {
        (one.name, *sorted(one.labels.items())): one.value for family in families for one in family.samples
    }
    common = sorted(COMMON.items())
    assert found["rocketmq_topic_number", *common] == 7
    assert found["orbitmq_unflushed_seconds", *common] == 0.25
    strange = {
        **COMMON,
        "is_system": "false",
        "message_type": "normal",
        "topic": 'a "strange"\\\n100%s topic',
    }
    assert found["rocketmq_messages_in_total", *sorted(strange.items())] == 3
    sized = {**COMMON, "is_system": "false", "message_type": "normal", "topic": "T"}
    reached = [
        found["rocketmq_message_size_bucket", *sorted({**sized, "le": le}.items())]
        for le in ("1024.0", "4096.0", "524288.0", "4194304.0", "+Inf")
    ]
    assert reached == [1, 3, 3, 3, 7]
    assert found["rocketmq_message_size_count", *sorted(sized.items())] == 7
    assert found["rocketmq_message_size_sum", *sorted(sized.items())] == 900
    assert {family.type for family in families} == {"gauge", "counter", "histogram"}


def test_samples_beyond_the_limit_are_added_up() -> None:
    exposition = Exposition(COMMON, 2)
    for number in range(5):
        exposition.add("rocketmq_messages_in_total", ("false", "normal", f"T{number}"), 10)
        exposition.add("rocketmq_message_size", ("false", "normal", f"T{number}"), Distribution((1,) * 7, 5))
    families = {family.name: family for family in parse_text(exposition.text(open_metrics=False).decode())}
    samples = families["rocketmq_messages_in"].samples
    assert [one.value for one in samples] == [10, 10, 30]
    assert samples[-1].labels == {**COMMON, "otel_metric_overflow": "true"}
    counts = [one.value for one in families["rocketmq_message_size"].samples if one.name.endswith("_count")]
    assert counts == [7, 7, 21]


def test_open_metrics_only_for_who_asks() -> None:
    assert wants_open_metrics("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3")
    assert not wants_open_metrics("text/plain;version=0.0.4")
    assert not wants_open_metrics("")
