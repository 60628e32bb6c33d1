"""Questions of commands to peers and their use of the answers, without a broker."""

import click
import pytest

from orbitmq.admin import Admin
from orbitmq.admin.app import admin as admin_group
from orbitmq.admin.command import ALONE, COMMANDS, Moment
from orbitmq.admin.commands.broker_config import broker_config
from orbitmq.admin.commands.broker_set import update_broker_config
from orbitmq.admin.commands.broker_unflushed import show as show_unflushed
from orbitmq.admin.commands.cluster_list import first_rate
from orbitmq.admin.commands.cluster_list import show as show_cluster
from orbitmq.admin.commands.group_list import is_system
from orbitmq.admin.commands.group_progress import Progress, group_progress
from orbitmq.admin.commands.messages import NoMessage, message_at, message_by_id, messages_by_key
from orbitmq.admin.commands.reset_offset import EARLIEST, reset_offset
from orbitmq.admin.commands.stats import statistic
from orbitmq.admin.commands.topic_route import perm_text
from orbitmq.options.properties import parse_properties
from orbitmq.protocol.bodies.offset import ResetOffsetBody
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.route import BrokerData, ClusterInfo, KVTable
from orbitmq.protocol.bodies.stats import BrokerStatsData, BrokerStatsItem, ConsumeStats, OffsetWrapper
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.records.encoding_cy import encode_record
from orbitmq.protocol.records.ids import MalformedId, pack_host
from orbitmq.protocol.requests.admin import (
    BrokerConfigReply,
    BrokerStatsReply,
    GetBrokerConfig,
    GetBrokerRuntimeInfo,
    RuntimeInfoReply,
    UpdateBrokerConfig,
    ViewBrokerStatsData,
)
from orbitmq.protocol.requests.group import ConsumeStatsReply, GetConsumeStats
from orbitmq.protocol.requests.offset import InvokeBrokerToResetOffset, ResetOffsetReply
from orbitmq.protocol.requests.pull import PullMessage, PullReply, QueryMessage, QueryReply, ViewMessageById
from orbitmq.protocol.requests.route import (
    ClusterInfoReply,
    GetBrokerClusterInfo,
)
from orbitmq.protocol.schema.declare import Void
from tests.kit.scripted_admin import alone

HOST = pack_host("127.0.0.1", 10911)


def record(topic: str = "t", queue_offset: int = 0, properties: bytes = b"", body: bytes = b"body") -> bytes:
    out = bytearray(1000)
    size = encode_record(
        out,
        0,
        queue_id=1,
        flag=0,
        queue_offset=queue_offset,
        physical_offset=0,
        sys_flag=0,
        born_timestamp=1,
        born_host=HOST,
        store_timestamp=2,
        store_host=HOST,
        reconsume_times=0,
        prepared_transaction_offset=0,
        body=body,
        topic=topic.encode(),
        properties=properties,
    )
    return bytes(out[:size])


AT_THE_TOP = {"migrate"}
"""Subjects that are commands of `orbitmq`, too, and shown as such."""


def test_every_subject_has_commands_and_every_command_help_json_and_namesrv() -> None:
    assert all(COMMANDS.values())
    assert set(admin_group.commands) == {*COMMANDS, *ALONE}
    for subject, commands in COMMANDS.items():
        for name, command in commands.items():
            assert command.help, name
            program = "orbitmq" if subject in AT_THE_TOP else "orbitmq admin"
            assert f"Examples:\n  {program} {subject} {name}" in (command.epilog or "")
            silent = [one.name for one in command.params if isinstance(one, click.Option) and not one.help]
            assert not silent, f"{name}: {silent}"
            assert {"namesrv", "as_json", "timeout"} <= {parameter.name for parameter in command.params}


async def test_a_broker_that_does_not_answer_is_down_and_one_that_may_not_is_refusing() -> None:
    info = {
        "brokerActive": "true",
        "brokerVersionDesc": "V5_4_0",
        "putTps": "1.5 2.0 3.0 ",
        "msgPutTotalTodayNow": "9",
    }
    async with alone({GetBrokerRuntimeInfo: RuntimeInfoReply(body=KVTable(info))}) as peer:
        gone = BrokerData("C", "gone", {0: "127.0.0.1:1"})
        here = BrokerData("C", "a", {0: peer.address})
        peer.answers[GetBrokerClusterInfo] = ClusterInfoReply(
            body=ClusterInfo({"a": here, "gone": gone}, {"C": ["a", "gone"]})
        )
        async with Admin(peer.address) as admin:
            rows = (await show_cluster.callback.__wrapped__.__wrapped__(admin, None, None)).as_json()  # type: ignore[union-attr]
            peer.answers[GetBrokerRuntimeInfo] = Refused(ResponseCode.NO_PERMISSION, "not for ann")
            told = await show_cluster.callback.__wrapped__.__wrapped__(admin, None, None)  # type: ignore[union-attr]
    assert [row["state"] for row in told.as_json()] == ["refusing", "down"]
    assert "a: NO_PERMISSION: not for ann" in told.note
    assert [(row["state"], row["inTps"], row["inToday"]) for row in rows] == [
        ("active", 1.5, 9),
        ("down", None, None),
    ]
    assert first_rate("") == first_rate("x y") == 0.0


@pytest.mark.parametrize(
    ("info", "said"),
    [
        ({"unflushedBytes": "4096", "unflushedTimeMillis": "250"}, (4096, 0.25)),
        ({"remainHowManyDataToFlush": "4.0 KiB"}, (None, None)),
    ],
)
async def test_what_a_power_cut_would_cost(
    info: dict[str, str], said: tuple[int | None, float | None]
) -> None:
    async with (
        alone({GetBrokerRuntimeInfo: RuntimeInfoReply(body=KVTable(info))}) as peer,
        Admin(peer.address) as admin,
    ):
        (row,) = (await show_unflushed.callback.__wrapped__.__wrapped__(admin, None)).as_json()  # type: ignore[union-attr]
    assert (row["broker"], row["unflushedBytes"], row["unflushedSeconds"]) == ("a", *said)


async def test_options_of_a_broker_are_lines_not_escaped_text() -> None:
    body = b"a=1\nmessageDelayLevel=1s 5s\npath=C:\\x\nempty=\nno pair\n"
    async with (
        alone({GetBrokerConfig: BrokerConfigReply(version="{}", body=body)}) as peer,
        Admin(peer.address) as admin,
    ):
        options = await broker_config(admin, peer.address)
    assert options == {"a": "1", "messageDelayLevel": "1s 5s", "path": "C:\\x", "empty": ""}


async def test_updates_travel_as_properties_that_java_reads_back() -> None:
    async with alone({UpdateBrokerConfig: Void()}) as peer, Admin(peer.address) as admin:
        await update_broker_config(admin, peer.address, {"a": "x = y\\z", "b": "ü"})
    assert parse_properties(bytes(peer.asked[-1].body), "sent") == {"a": "x = y\\z", "b": "ü"}


async def test_progress_sums_over_queues() -> None:
    table = {
        MessageQueue("t", "a", 1): OffsetWrapper(10, 4, 6, 0),
        MessageQueue("t", "a", 0): OffsetWrapper(5, 5, 5, 0),
    }
    async with (
        alone({GetConsumeStats: ConsumeStatsReply(body=ConsumeStats(table, 1.5))}) as peer,
        Admin(peer.address) as admin,
    ):
        progress = await group_progress(admin, "g")
    assert (progress.lag, progress.in_flight, progress.tps) == (6, 2, 1.5)
    assert [queue.queue_id for queue in progress.queues] == [0, 1]
    assert (Progress().lag, Progress().in_flight) == (0, 0)


async def test_a_reset_names_the_broker_where_its_answer_does_not() -> None:
    reply = ResetOffsetReply(body=ResetOffsetBody({MessageQueue("", "", 1): 7, MessageQueue("t", "a", 0): 3}))
    info = RuntimeInfoReply(body=KVTable({"brokerVersionDesc": "V5_4_0"}))
    answers = {InvokeBrokerToResetOffset: reply, GetBrokerRuntimeInfo: info}
    async with alone(answers) as peer, Admin(peer.address) as admin:
        table = await reset_offset(admin, "g", "t", EARLIEST)
    assert table == {MessageQueue("t", "a", 0): 3, MessageQueue("t", "a", 1): 7}
    assert peer.asked[-1].timestamp == 0
    assert peer.asked[-1].queue_id == -1


async def test_only_messages_that_carry_the_key_are_given() -> None:
    body = record(properties=b"KEYS\x01k other\x02") + record(properties=b"KEYS\x01collides\x02")
    reply = QueryReply(index_last_update_timestamp=0, index_last_update_phyoffset=0, body=body)
    async with alone({QueryMessage: reply}) as peer, Admin(peer.address) as admin:
        found = await messages_by_key(admin, "t", "k")
        assert [message.keys for message in found] == [["k", "other"]]
        peer.answers[QueryMessage] = Refused(22, "can not find message")
        assert await messages_by_key(admin, "t", "k") == []


async def test_a_message_by_its_place() -> None:
    def pull(request: PullMessage) -> PullReply:
        fields = {"suggest_which_broker_id": 0, "next_begin_offset": 5, "min_offset": 0, "max_offset": 9}
        if request.queue_offset == 4:
            return PullReply(**fields, body=record(queue_offset=4))
        return PullReply(**fields, code=21)

    async with alone({PullMessage: pull}) as peer, Admin(peer.address) as admin:
        queue = MessageQueue("t", "a", 1)
        assert (await message_at(admin, queue, 4)).body == b"body"
        with pytest.raises(NoMessage, match="no message at offset 99 of queue 1 of t on a: it holds 0 up to"):
            await message_at(admin, queue, 99)
        with pytest.raises(NoMessage, match="broker b has no queues of topic t"):
            await message_at(admin, MessageQueue("t", "b", 0), 0)


async def test_a_message_by_its_id_is_asked_of_the_broker_in_the_id() -> None:
    async with alone(
        {ViewMessageById: lambda request: Refused(1, f"can not find message by the offset, {request.offset}")}
    ) as peer:
        port = int(peer.address.rpartition(":")[2])
        message_id = (pack_host("127.0.0.1", port) + (77).to_bytes(8, "big")).hex().upper()
        async with Admin(peer.address) as admin:
            with pytest.raises(Exception, match="by the offset, 77"):
                await message_by_id(admin, message_id)
            with pytest.raises(MalformedId):
                await message_by_id(admin, "zz")


async def test_a_young_broker_knows_its_first_day_by_the_minute() -> None:
    young = BrokerStatsData(BrokerStatsItem(6, 0.1, 1.0), BrokerStatsItem(), BrokerStatsItem())
    async with (
        alone({ViewBrokerStatsData: BrokerStatsReply(body=young)}) as peer,
        Admin(peer.address) as admin,
    ):
        brokers = await admin.masters()
        assert await statistic(admin, brokers, "TOPIC_PUT_NUMS", "t") == (0.1, 6)
        peer.answers[ViewBrokerStatsData] = Refused(1, "The stats <TOPIC_PUT_NUMS> <t> not exist")
        assert await statistic(admin, brokers, "TOPIC_PUT_NUMS", "t") == (0.0, 0)


def test_permissions_and_system_groups() -> None:
    assert [perm_text(perm) for perm in (6, 4, 2, 0, 7)] == ["RW-", "R--", "-W-", "---", "RWX"]
    assert is_system("CID_RMQ_SYS_TRANS")
    assert is_system("TOOLS_CONSUMER")
    assert not is_system("billing")


@pytest.mark.parametrize(
    ("text", "ms"), [("1795260076483", 1795260076483), ("1970-01-01T00:00:01+00:00", 1000)]
)
def test_moments(text: str, ms: int) -> None:
    assert Moment().convert(text, None, None) == ms


def test_texts_that_are_no_moment() -> None:
    with pytest.raises(Exception, match="neither `now`"):
        Moment().convert("yesterday", None, None)
