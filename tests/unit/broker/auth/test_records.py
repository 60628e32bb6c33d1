"""Records that a request names by their place are of topics of their own."""

from pathlib import Path

import pytest

from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.bodies.auth import Policy, User
from orbitmq.protocol.bodies.heartbeat import ConsumerData, HeartbeatData, SubscriptionData
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.records.ids import offset_message_id, pack_host
from orbitmq.protocol.remoting.signing import Credentials
from orbitmq.protocol.requests.client import ConsumeMessageDirectly, Heartbeat
from orbitmq.protocol.requests.pull import ViewMessageById
from orbitmq.protocol.requests.send import ConsumerSendMsgBack
from orbitmq.protocol.schema.declare import Request
from tests.kit.access import entry
from tests.kit.running_standalone import Running, running

ROOT = Credentials("root", "root-secret")
ANN = Credentials("ann", "ann-secret")
GUARDED = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": '{"username":"root","password":"root-secret"}',
}


async def refusal(here: Running, request: Request, who: Credentials = ANN) -> tuple[int, str]:
    pool = ConnectionPool(credentials=who)
    try:
        await pool.call(here.address, request)
    except BrokerRefused as refused:
        return refused.code, refused.remark or ""
    finally:
        await pool.close()
    return 0, ""


@pytest.mark.parametrize("named", ["mine", None])
async def test_only_records_of_topics_that_are_ones_own(tmp_path: Path, named: str | None) -> None:
    async with running(tmp_path, credentials=ROOT, **GUARDED) as here:
        table = here.broker.broker.auth
        table.put_user(User("ann", "ann-secret", user_type=2, user_status=1))
        rules = [entry("Topic:mine", "All"), entry("Group:g", "All")]
        table.merge_acl("ann", [Policy(1, rules)])
        mine, other = await here.send("mine", b"my own"), await here.send("other", b"not mine")
        host = pack_host("127.0.0.1", here.broker.settings.listen_port)

        def place(message_id: str) -> int:
            return int(message_id[-16:], 16)

        at = {"mine": place(mine.msg_id), "other": place(other.msg_id)}
        wrong = (16, "User:ann may not access the topic that the message is of")
        assert await refusal(here, ViewMessageById(at["mine"], named)) == (0, "")
        assert await refusal(here, ViewMessageById(at["other"], named)) == wrong
        assert await refusal(here, ViewMessageById(at["other"], named), ROOT) == (0, "")

        def back(physical_offset: int) -> ConsumerSendMsgBack:
            return ConsumerSendMsgBack(physical_offset, "g", 1, None, named)

        assert await refusal(here, back(at["mine"])) == (0, "")
        assert await refusal(here, back(at["other"])) == wrong

        consumer = ConsumerData("g", subscription_data_set=[SubscriptionData("mine", "*")])
        pool = ConnectionPool(credentials=ANN)
        await pool.call(here.address, Heartbeat(HeartbeatData("c", consumer_data_set=[consumer])))
        asked = ConsumeMessageDirectly("g", "c", offset_message_id(host, at["other"]), None, named)
        assert await refusal(here, asked) == wrong
        await pool.close()
