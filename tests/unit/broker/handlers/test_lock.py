from orbitmq.protocol.bodies.queue import LockBatchRequestBody, MessageQueue, UnlockBatchRequestBody
from orbitmq.protocol.requests.lock import LockBatchMq, UnlockBatchMq
from tests.unit.broker.world import World

QUEUES = [MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1)]


def test_queues_are_locked_and_given_up() -> None:
    world = World()
    assert (
        world.ask(LockBatchMq(LockBatchRequestBody("G", "c1", False, QUEUES))).body.lock_ok_mq_set == QUEUES
    )
    assert world.ask(LockBatchMq(LockBatchRequestBody("G", "c2", False, QUEUES))).body.lock_ok_mq_set == []
    world.ask(UnlockBatchMq(UnlockBatchRequestBody("G", "c1", False, QUEUES[:1])))
    held = world.ask(LockBatchMq(LockBatchRequestBody("G", "c2", False, QUEUES))).body.lock_ok_mq_set
    assert held == QUEUES[:1]
