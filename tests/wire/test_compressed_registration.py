import json
import zlib
from pathlib import Path

from orbitmq.protocol.bodies.registration import decode_compressed
from tests.kit.registration import encode_compressed

SENT = json.loads((Path(__file__).parent / "vectors" / "compressed_registration.json").read_text())
BODY = bytes.fromhex(SENT["hex"])


def test_as_a_broker_of_5_4_0_sends_it() -> None:
    assert zlib.crc32(BODY) & 0x7FFFFFFF == SENT["bodyCrc32"]
    body = decode_compressed(BODY, SENT["version"])
    topics = body.topic_config_serialize_wrapper.topic_config_table
    assert "RMQ_SYS_TRANS_HALF_TOPIC" in topics
    assert (topics["TBW102"].read_queue_nums, topics["TBW102"].perm) == (8, 7)
    assert topics["Tc"].attributes == {"message.type": "FIFO"}
    assert body.filter_server_list == []
    assert body.topic_config_serialize_wrapper.data_version.counter > 0


def test_written_the_same_way() -> None:
    body = decode_compressed(BODY, SENT["version"])
    assert zlib.decompress(encode_compressed(body)) == zlib.decompress(BODY)
