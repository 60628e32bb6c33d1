"""Records of Kafka as orders."""

from types import SimpleNamespace

import pytest

from orbitmq.delay_service.options import parse_cluster
from orbitmq.delay_service.sources.kafka import LOG_APPEND_TIME, KafkaSource


@pytest.mark.parametrize(
    ("allowed", "kind", "stored"), [(False, 0, None), (True, 0, 5), (False, LOG_APPEND_TIME, 5)]
)
def test_times_of_senders_count_only_if_they_are_allowed(allowed, kind, stored):
    cluster = parse_cluster("events=kafka://127.0.0.1:1")
    source = KafkaSource(
        cluster, "orbitmq_delay", None, partitions=1, make_topic=False, allow_create_time=allowed
    )
    record = SimpleNamespace(
        offset=7, timestamp=5, timestamp_type=kind, headers=[("delay.after", b"1s")], value=b"x", key=None
    )
    assert source._read(record).stored == stored
