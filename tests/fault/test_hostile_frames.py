"""Frames that are written to break what reads them: the broker answers each, or refuses it, and lives on.

It runs as a process of its own, for what they would break is the process.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.net.blocking import BlockingConnection
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.requests.send import SendMessageV2
from orbitmq.protocol.requests.topic import UpdateAndCreateTopic
from tests.kit.real_broker import message
from tests.peers.orbitmq_process import OrbitMQ

LONG_TOPIC = "T" * 127
HALF = "TRAN_MSG\x01true\x02PGROUP\x01PG\x02"


def half(unique_id: str) -> SendMessageV2:
    return message(topic=LONG_TOPIC, queue_id=0, sys_flag=4, properties=f"{HALF}UNIQ_KEY\x01{unique_id}\x02")


def test_half_messages_whose_properties_do_not_fit(tmp_path: Path) -> None:
    """Their id is stored twice, with the topic behind: it comes to twice what properties may have."""
    server = OrbitMQ.start(tmp_path / "store")
    try:
        with BlockingConnection(server.broker) as peer:
            peer.call(UpdateAndCreateTopic(LONG_TOPIC, "TBW102", 4, 4, 6, "SINGLE_TAG", order=False))
            peer.call(half("7F000001"))
            for size in (32_600, *range(32_690, 32_741, 10), 32_741, 65_000):
                with pytest.raises(BrokerRefused) as refused:
                    peer.call(half("A" * size))
                assert refused.value.code == 13
            peer.call(half("7F000002"))
    finally:
        server.stop()
