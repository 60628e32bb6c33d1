"""Records of the holder: who may write them, and which of them count."""

from dataclasses import replace

import pytest

from orbitmq.delay_service.errors import NotSchedulable
from orbitmq.delay_service.rules.sharing import RECORD, Begin, Claim
from orbitmq.delay_service.store.records import Content
from tests.kit.delay_instances import QUEUES, Cluster, Instance
from tests.kit.delay_world import KNOWN, QUEUE, message


@pytest.fixture
def cluster(tmp_path):
    found = Cluster(tmp_path, 1, number=2)
    yield found
    found.close()


def record(offset, body):
    return replace(message(offset, 0), control={RECORD: "1"}, content=Content(body, {}))


def settle(instance, *, rounds=4):
    for _ in range(rounds):
        instance.world.now += 200
        instance.read(1000)
        instance.work(512)
        instance.read(1000)


def lead(cluster, instance, term):
    cluster.lease = (instance, term)
    instance.lead(term)


def test_a_record_that_no_instance_wrote_is_a_dead_letter(cluster):
    one: Instance = cluster.instances[0]
    body = one.sharing.body(str(QUEUES[1]), Begin(7))  # of another queue: nobody can move it either
    for bad in (body, b"", b"x" * 40):
        with pytest.raises(NotSchedulable, match="record"):
            one.sharing.read(str(QUEUE), bad)
    one.intake.take(QUEUE, [record(0, body)], 1, cluster.now)
    assert one.intake.counts.orders == {"refused": 1}
    (dead,) = [lane for lane in one.lanes if lane.target.topic == KNOWN.dead_topic]
    assert one.store.counts[dead.number]


def test_a_holder_sends_nothing_before_its_term_has_begun(cluster):
    one = cluster.instances[0]
    cluster.send(b"x", id="n", topic="t", after="0ms")
    one.read(1000)
    lead(cluster, one, 1)
    (lane,) = one.lanes
    assert one.holder.take(lane, cluster.now + 1) is None
    assert lane.paused_until > cluster.now
    one.lanes.changed(lane)
    settle(one)
    assert [sent.pending.name for _, _, sent in cluster.sent] == ["n"]


def test_a_claim_of_an_earlier_term_counts_for_nothing_after_the_next_begins(cluster):
    old, new = cluster.instances
    cluster.send(b"x", id="n", topic="t", after="10s")
    lead(cluster, old, 1)
    settle(old)
    lead(cluster, new, 2)
    settle(new)
    cluster.now += 20_000
    (lane,) = old.lanes
    batch = old.holder.take(lane, cluster.now)  # it has not noticed yet
    for _, queue, body in batch.writes:
        cluster.write(queue, body)
    cluster.send(b"c", id="n", action="cancel", reply="r")
    for one in (old, new):
        one.read(1000)
        assert one.intake.counts.orders["cancelled"] == 1
    assert batch.open
    assert not batch.messages


def test_a_claim_that_was_not_read_back_is_sent_once_it_is(cluster):
    one = cluster.instances[0]
    cluster.send(b"x", id="n", topic="t", after="0ms")
    lead(cluster, one, 1)
    settle(one)
    cluster.sent.clear()
    cluster.send(b"y", id="m", topic="t", after="0ms")
    one.read(1000)
    (lane,) = one.lanes
    batch = one.holder.take(lane, cluster.now + 1)
    ((number, queue, body),) = batch.writes
    one.holder.failed(batch, number, queue)
    assert one.holder.claimed(batch, cluster.now) == []
    assert lane.failures == 1
    cluster.write(queue, body)  # the write that seemed to have failed
    one.read(1000)
    assert lane.unsent
    cluster.now += 1000
    settle(one)
    assert [sent.pending.name for _, _, sent in cluster.sent] == ["m"]
    assert one.store.pending_count == 0


def test_messages_of_a_queue_that_is_gone_go_through_another_one(cluster):
    one = cluster.instances[0]
    cluster.send(b"x", id="n", topic="t", after="0ms")
    one.read(1000)
    gone = next(str(queue) for queue in QUEUES if cluster.logs[queue])
    one.holder.present = {str(queue) for queue in QUEUES} - {gone}
    lead(cluster, one, 1)
    cluster.now += 1000
    settle(one)
    assert [sent.pending.name for _, _, sent in cluster.sent] == ["n"]


def test_an_instance_that_stands_alone_passes_over_records(world):
    claim = Claim(1, 1, str(QUEUE), "main/t", 0, [(0, 0, 0)])
    body = repr(claim).encode()
    world.intake.take(QUEUE, [record(0, body)], 1, world.now)
    assert world.intake.counts.orders == {"passed over": 1}
    assert world.intake.position(QUEUE) == 1
    assert world.store.pending_count == 0


def test_claims_outlive_the_process(cluster):
    one, other = cluster.instances
    cluster.send(b"x", id="n", topic="t", after="0ms")
    lead(cluster, one, 1)
    settle(one)
    cluster.sent.clear()
    cluster.send(b"y", id="m", topic="t", after="0ms")
    one.read(1000)
    cluster.now += 1000
    (lane,) = one.lanes
    batch = one.holder.take(lane, cluster.now)
    for _, queue, body in batch.writes:
        cluster.write(queue, body)
    one.read(1000)
    one.crash()
    cluster.send(b"c", id="m", action="cancel", reply="r")
    one.read(1000)
    assert one.intake.counts.orders == {"too-late": 1}
    lead(cluster, other, 2)
    settle(other)
    assert [sent.pending.name for _, to, sent in cluster.sent if to == "main/t"] == ["m"]


def test_a_claim_that_an_end_of_the_lease_prevented_is_made_by_the_same_instance_in_its_next_term(cluster):
    one = cluster.instances[0]
    for name, after in (("now", "1s"), ("far", "9h")):
        cluster.send(b"x", id=name, topic="t", after=after)
    lead(cluster, one, 1)
    settle(one)
    cluster.now += 2_000
    (lane,) = one.lanes
    batch = one.holder.take(lane, cluster.now)
    assert len(batch.keys) == 1
    one.step_down()  # before the claim was written
    lead(cluster, one, 2)
    settle(one)
    assert [sent.pending.name for _, _, sent in cluster.sent] == ["now"]
