import zlib

import pytest

from orbitmq.protocol.bodies.registration import decode_compressed
from orbitmq.protocol.bodies.route import RegisterBrokerBody
from orbitmq.protocol.bodies.static_topic import TopicQueueMappingInfo
from orbitmq.protocol.bodies.topic import (
    TopicConfig,
    TopicConfigAndMappingSerializeWrapper,
    TopicFilterType,
)
from orbitmq.protocol.bodies.version import DataVersion
from orbitmq.protocol.errors import Malformed
from tests.kit.registration import encode_compressed


def _body() -> RegisterBrokerBody:
    wrapper = TopicConfigAndMappingSerializeWrapper(
        {
            "A": TopicConfig("A", 4, 5, 6, attributes={"message.type": "FIFO"}),
            "B": TopicConfig("B", topic_filter_type=TopicFilterType.MULTI_TAG),
        },
        DataVersion(3, 1, 99),
        topic_queue_mapping_info_map={"S": TopicQueueMappingInfo("S", bname="broker-a", curr_id_map={0: 1})},
    )
    return RegisterBrokerBody(wrapper, ["f:1"])


def test_there_and_back() -> None:
    assert decode_compressed(encode_compressed(_body()), 493) == _body()


def test_older_senders_have_no_mappings() -> None:
    read = decode_compressed(encode_compressed(_body()), 412)
    assert read.topic_config_serialize_wrapper.topic_queue_mapping_info_map == {}


def test_what_the_form_does_not_carry() -> None:
    body = _body()
    config = body.topic_config_serialize_wrapper.topic_config_table["A"]
    config.order = True
    config.topic_sys_flag = 3
    config.attributes = {"k": "with space"}
    read = decode_compressed(encode_compressed(body), 493).topic_config_serialize_wrapper.topic_config_table[
        "A"
    ]
    assert (read.order, read.topic_sys_flag, read.attributes) == (False, 0, {})
    assert (read.read_queue_nums, read.write_queue_nums, read.perm) == (4, 5, 6)


def test_every_cut_is_refused() -> None:
    plain = zlib.decompress(encode_compressed(_body()))
    for length in range(len(plain)):
        with pytest.raises(Malformed):
            decode_compressed(zlib.compress(plain[:length]), 493)


def test_a_cut_stream_is_refused() -> None:
    data = encode_compressed(_body())
    for length in range(len(data)):
        with pytest.raises(Malformed):
            decode_compressed(data[:length], 493)


@pytest.mark.parametrize(
    "plain",
    [
        b"\xff\xff\xff\xff",
        b"\x7f\xff\xff\xff{}",
        b"\x00\x00\x00\x02{}\x7f\xff\xff\xff",
        b"\x00\x00\x00\x02{}\xff\xff\xff\xff",
        b"\x00\x00\x00\x02{}\x00\x00\x00\x01\x00\x00\x00\x03A 1",
        b"\x00\x00\x00\x02{}\x00\x00\x00\x01\x00\x00\x00\x0fA x 1 1 SINGLE_T",
        b"\x00\x00\x00\x02\xff\xff",
        b"\x00\x00\x00\x02{}\x00\x00\x00\x00\x00\x00\x00\x02{}\x00\x00\x00\x00",
    ],
)
def test_nonsense_is_refused(plain: bytes) -> None:
    with pytest.raises(Malformed):
        decode_compressed(zlib.compress(plain), 493)


def test_a_bomb_is_refused() -> None:
    bomb = zlib.compress(b"\0" * (65 << 20), 9)
    assert len(bomb) < 100_000
    with pytest.raises(Malformed, match="longer than"):
        decode_compressed(bomb, 493)
