"""Registrations of brokers in both forms: reading them, and refusals."""

from __future__ import annotations

import zlib
from typing import Any

import pytest

from orbitmq.handling.call import READ_ON_LOOP_BYTES, Call, Peer
from orbitmq.nameserver.registering import is_long, read_registration
from orbitmq.protocol.bodies.route import RegisterBrokerBody
from orbitmq.protocol.bodies.topic import TopicConfig, TopicConfigAndMappingSerializeWrapper
from orbitmq.protocol.bodies.version import DataVersion
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.route import RegisterBroker
from tests.kit.registration import encode_compressed

PEER = Peer(7, b"", "127.0.0.1:1", 493)
TABLE = TopicConfigAndMappingSerializeWrapper({"T": TopicConfig("T", 3, 5)}, DataVersion(9, 0, 1_000))
BODY = RegisterBrokerBody(TABLE, ["f:1"])


def registered(body: Any = BODY, **fields: Any) -> Call[RegisterBroker]:
    request = RegisterBroker("broker-a", "b:10911", "C", "b:10912", 2, body=body, **fields)
    command = request.to_command()
    return Call(RegisterBroker.from_command(command), command, PEER)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_table_is_the_same_in_both_forms(compressed: bool) -> None:
    body = encode_compressed(BODY) if compressed else BODY
    found = read_registration(registered(body, compressed=compressed))
    assert (found.cluster, found.broker_name, found.broker_id, found.address) == (
        "C",
        "broker-a",
        2,
        "b:10911",
    )
    assert found.connection_id == PEER.connection_id
    assert found.version.counter == 9
    assert list(found.topics) == ["T"]
    assert "T" in found.topics
    assert (found.topics["T"].read_queue_nums, found.topics["T"].write_queue_nums) == (3, 5)
    assert found.filter_servers == ["f:1"]


def test_a_compressed_body_is_known_by_its_first_byte() -> None:
    assert list(read_registration(registered(encode_compressed(BODY))).topics) == ["T"]


def test_a_registration_without_a_body_has_no_topics() -> None:
    found = read_registration(registered(None))
    assert (len(found.topics), found.version.counter) == (0, 0)


def test_a_check_sum_is_compared_where_there_is_one() -> None:
    raw = BODY.to_json()
    right = zlib.crc32(raw) & 0x7FFFFFFF
    assert list(read_registration(registered(raw, body_crc32=right)).topics) == ["T"]
    with pytest.raises(Refused, match="crc32 not match"):
        read_registration(registered(raw, body_crc32=right ^ 1))


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b'{"topicConfigSerializeWrapper":[]}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":7}}',
        zlib.compress(b"\x00\x00\x00\x09{")[:-2],
    ],
    ids=["cut", "a list", "no object", "no table", "cut and compressed"],
)
def test_a_body_that_cannot_be_read_is_refused_in_words(body: bytes) -> None:
    with pytest.raises(Refused, match="the registration cannot be read: "):
        read_registration(registered(body))


def test_only_long_and_compressed_registrations_are_read_in_a_thread() -> None:
    assert not is_long(registered(None))
    assert not is_long(registered(b"{" + b" " * (READ_ON_LOOP_BYTES - 2) + b"}"))
    assert is_long(registered(b"{" + b" " * READ_ON_LOOP_BYTES + b"}"))
    assert is_long(registered(encode_compressed(BODY)))
