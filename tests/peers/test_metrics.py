"""Metrics that Prometheus finds at OrbitMQ's address and at Apache's, under the same load of the Java
client."""

from __future__ import annotations

import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.needs import need
from tests.peers import suites
from tests.peers.apache import Apache
from tests.peers.conftest import CASES_WANT
from tests.peers.machine import LOOPBACK, free_port
from tests.peers.suites import JUDGE

pytestmark = pytest.mark.timeout(900)

CASES = (
    "send_sync", "tx_commit_rollback", "dlq_after_max", "delay_levels", "timer_delay_and_deliver_time",
    "push_latency", "pop_push_consumer",
)  # fmt: skip
SCRAPES_EVERY_S = 2.0

OF_ITS_LIBRARY = {"target_info", "otel_scope_info"}
LABELS_OF_ITS_LIBRARY = {"otel_scope_name", "otel_scope_version"}
NOT_TOLD = {
    # Time of a thread to look through its buffer: there is no such thread here.
    "rocketmq_pop_buffer_scan_time_consume_milliseconds",
}

Seen = dict[str, tuple[str, set[str]]]
"""Metric -> its type, and the labels of its samples."""


def scrape(port: int, seen: Seen) -> None:
    with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    for family in text_string_to_metric_families(text):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = seen.setdefault(name, (family.type, set()))[1]
        for sample in family.samples:
            labels.update(sample.labels)


def seen_under_load(kind: Any, folder: Path) -> Seen:
    """Everything that was told at some moment while the cases ran."""
    port = free_port()
    wants = {
        **CASES_WANT,
        "metricsExporterType": "PROM",
        "metricsPromExporterPort": port,
        "metricsPromExporterHost": LOOPBACK,
    }
    server = kind.start(folder / "store", wants)
    seen: Seen = {}
    try:
        command = [str(JUDGE / "java" / "run.sh"), server.namesrv, "--only", ",".join(CASES)]
        with subprocess.Popen(
            command, env=suites.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as cases:
            while cases.poll() is None:
                scrape(port, seen)
                time.sleep(SCRAPES_EVERY_S)
            assert cases.stdout is not None
            said = cases.stdout.read()
        scrape(port, seen)
        assert cases.returncode == 0, said[-3000:]
    finally:
        # Nobody reads the store again, and an orderly stop takes Apache up to 20 s.
        server.kill() if kind is Apache else server.stop()
    return seen


@pytest.mark.nightly
def test_what_apache_tells_we_tell_under_the_same_names_and_labels(tmp_path: Path) -> None:
    need("java", "mvn")
    apaches = seen_under_load(Apache, tmp_path / "apache")
    ours = seen_under_load(suites.under_test(), tmp_path / "ours")
    assert {"rocketmq_messages_in_total", "rocketmq_half_messages", "rocketmq_consumer_connections"} <= set(
        apaches
    )
    missing = set(apaches) - set(ours) - OF_ITS_LIBRARY - NOT_TOLD
    assert missing == set(), "Apache tells these"
    wrong = {
        name: (kind, labels - ours[name][1])
        for name, (kind, labels) in apaches.items()
        if name in ours and (kind != ours[name][0] or not labels - LABELS_OF_ITS_LIBRARY <= ours[name][1])
    }
    assert wrong == {}
