"""Members of a group with different filters: each pulls by its own, on both paths, and leaves nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.handling.call import DataAt, Peer, Wait
from orbitmq.protocol.bodies.heartbeat import ConsumerData, SubscriptionData
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.records.hashing import java_hash
from orbitmq.protocol.remoting.frame import encode_command
from orbitmq.protocol.requests.client import Heartbeat, HeartbeatData
from tests.kit.real_broker import NOW, RealBroker
from tests.unit.broker.pull.test_handlers import bodies, pull, send

HELD = 2
HEALTHY, STRAY, NOBODY = (
    Peer(number, bytes([10, 0, 0, number, 0, 0, 0x30, 0x39]), f"10.0.0.{number}:12345", 493)
    for number in (1, 2, 3)
)


def join(broker: RealBroker, peer: Peer, expression: str, version: int, kind: str = "TAG") -> None:
    wanted = SubscriptionData("TopicTest", expression, kind, sub_version=version)
    data = ConsumerData("CG", subscription_data_set=[wanted])
    body = HeartbeatData(client_id=peer.address, consumer_data_set=[data])
    broker.handle(Heartbeat(body), peer=peer)


def read(broker: RealBroker, peer: Peer, queue_offset: int, *, at_once: bool) -> list[bytes] | Wait | int:
    """The bodies of a pull, what holds it, or the code of its refusal."""
    request = pull(queue_offset=queue_offset, sys_flag=HELD, sub_version=0, subscription=None)
    data = encode_command(request.to_command(opaque=1))
    answers, held = broker.read_pulls(data, NOW, peer, at_once=at_once)
    if held:
        return held[1]
    return bodies(answers[1]) if answers[1].code == ResponseCode.SUCCESS else answers[1].code


@pytest.mark.parametrize("at_once", [True, False], ids=["fast path", "general path"])
@pytest.mark.parametrize("kind", ["TAG", "SQL92"])
def test_the_filter_of_a_pull_is_that_of_the_member_that_pulls(
    tmp_path: Path, kind: str, at_once: bool
) -> None:
    broker = RealBroker(tmp_path, enablePropertyFilter=True)

    def wanting(tag: str) -> str:
        return tag if kind == "TAG" else f"TAGS = '{tag}'"

    for tag in ("good", "other", "good"):
        send(broker, tag=tag, body=tag.encode())
    join(broker, HEALTHY, wanting("good"), 1, kind)
    broker.broker.topics.note_saved()
    assert read(broker, HEALTHY, 0, at_once=at_once) == [b"good", b"good"]
    join(broker, STRAY, wanting("other"), 9, kind)
    for _ in range(2):  # the second time by a plan that is kept
        assert read(broker, HEALTHY, 0, at_once=at_once) == [b"good", b"good"]
        assert read(broker, STRAY, 0, at_once=at_once) == [b"other"]
    # A connection that has said nothing is not given what others want while they differ.
    assert read(broker, NOBODY, 0, at_once=at_once) == ResponseCode.SUBSCRIPTION_NOT_EXIST
    held = read(broker, HEALTHY, 3, at_once=at_once)
    assert isinstance(held, Wait)
    condition = held.on[0]
    assert isinstance(condition, DataAt)
    send(broker, tag="other", body=b"other")
    if kind == "TAG":
        assert condition.tag_codes == {java_hash("good")}
    else:
        assert condition.accepts is not None
        assert not condition.accepts(3)
    broker.broker.clients.connection_closed(STRAY.connection_id)
    broker.broker.filters.tend(broker.broker.clients.subscription, NOW)
    assert read(broker, HEALTHY, 0, at_once=at_once) == [b"good", b"good"]
    assert read(broker, NOBODY, 0, at_once=at_once) == [b"good", b"good"]
    if kind == "SQL92":
        kept = broker.broker.filters.get("TopicTest", "CG")
        assert kept is not None
        assert kept.data.expression == wanting("good")
    broker.close()


def test_retries_are_not_filtered_while_members_differ(tmp_path: Path) -> None:
    broker = RealBroker(tmp_path, enablePropertyFilter=True, filterSupportRetry=True)
    join(broker, HEALTHY, "TAGS = 'good'", 1, "SQL92")
    join(broker, STRAY, "TAGS = 'other'", 9, "SQL92")
    properties = "UNIQ_KEY\x01AB\x02TAGS\x01good\x02RETRY_TOPIC\x01TopicTest\x02"
    broker.send(topic="%RETRY%CG", queue_id=0, properties=properties, body=b"again")
    broker.broker.topics.note_saved()
    for peer in (HEALTHY, STRAY):
        wanted = [SubscriptionData("TopicTest", "x"), SubscriptionData("%RETRY%CG", "*")]
        broker.broker.clients.register_consumer(
            ConsumerData("CG", subscription_data_set=wanted),
            peer.address,
            peer,
            NOW,
            notifies=False,
            with_subscriptions=True,
        )
        request = pull(topic="%RETRY%CG", queue_id=0, sys_flag=0, subscription=None)
        assert bodies(broker.handle(request, peer=peer)) == [b"again"]
    broker.close()
