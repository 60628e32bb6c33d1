"""A reset of offsets is told for each queue of each broker."""

from orbitmq.admin import Admin
from orbitmq.admin.commands.reset_offset import EARLIEST, reset_offset
from orbitmq.protocol.bodies.offset import ResetOffsetBody
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.route import KVTable
from orbitmq.protocol.requests.admin import (
    GetBrokerRuntimeInfo,
    RuntimeInfoReply,
)
from orbitmq.protocol.requests.offset import InvokeBrokerToResetOffset, ResetOffsetReply
from tests.kit.scripted_admin import alone


async def test_a_reset_names_the_broker_where_its_answer_does_not() -> None:
    reply = ResetOffsetReply(body=ResetOffsetBody({MessageQueue("", "", 1): 7, MessageQueue("t", "a", 0): 3}))
    info = RuntimeInfoReply(body=KVTable({"brokerVersionDesc": "V5_4_0"}))
    answers = {InvokeBrokerToResetOffset: reply, GetBrokerRuntimeInfo: info}
    async with alone(answers) as peer, Admin(peer.address) as admin:
        table = await reset_offset(admin, "g", "t", EARLIEST)
    assert table == {MessageQueue("t", "a", 0): 3, MessageQueue("t", "a", 1): 7}
    assert peer.asked[-1].timestamp == 0
    assert peer.asked[-1].queue_id == -1
