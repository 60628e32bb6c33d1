"""A look at the brokers of a group: those that do not tell about themselves say why."""

from __future__ import annotations

from orbitmq.admin.admin import Admin, BrokerAt
from orbitmq.admin.migration.plan import plan_group
from orbitmq.admin.replication.survey import ORBITMQ, GroupSurvey, read_member
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.admin import GetBrokerRuntimeInfo
from tests.kit.scripted_admin import Scripted


async def test_a_plan_without_rights_says_what_to_give_and_not_that_the_master_is_gone() -> None:
    no = Refused(ResponseCode.NO_PERMISSION, "check signature failed")
    async with Scripted({GetBrokerRuntimeInfo: no}) as peer, Admin("127.0.0.1:1") as admin:
        master = await read_member(admin, BrokerAt("C", "broker-a", 0, peer.address))
    (step,) = plan_group(GroupSurvey("broker-a", (master,)), ORBITMQ, "ns1:9876")
    assert f"{peer.address} refuses" in step.what
    assert "check signature failed" in step.what
    assert "--access-key" in step.what


async def test_a_plan_of_a_group_whose_master_is_down_names_its_address() -> None:
    async with Admin("127.0.0.1:1") as admin:
        master = await read_member(admin, BrokerAt("C", "broker-a", 0, "127.0.0.1:1"))
    (step,) = plan_group(GroupSurvey("broker-a", (master,)), ORBITMQ, "ns1:9876")
    assert "127.0.0.1:1 does not answer" in step.what
    assert "--access-key" not in step.what
