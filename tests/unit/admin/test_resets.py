"""A reset of offsets is told for each queue of each broker."""

import pytest

from orbitmq import __version__
from orbitmq.admin import Admin
from orbitmq.admin.resets import EARLIEST, reset_offset
from orbitmq.cli.app import run
from orbitmq.protocol.bodies.offset import ResetOffsetBody
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.route import KVTable
from orbitmq.protocol.requests.admin import GetBrokerRuntimeInfo
from orbitmq.protocol.requests.offset import InvokeBrokerToResetOffset
from orbitmq.protocol.schema.declare import JsonReply
from orbitmq.testing import LocalBroker
from tests.kit.scripted_admin import alone


async def test_a_reset_names_the_broker_where_its_answer_does_not() -> None:
    reply = JsonReply[ResetOffsetBody | None](
        body=ResetOffsetBody({MessageQueue("", "", 1): 7, MessageQueue("t", "a", 0): 3})
    )
    info = JsonReply[KVTable](body=KVTable({"brokerVersionDesc": "V5_4_0"}))
    answers = {InvokeBrokerToResetOffset: reply, GetBrokerRuntimeInfo: info}
    async with alone(answers) as peer, Admin(peer.address) as admin:
        table = await reset_offset(admin, "g", "t", EARLIEST)
    assert table == {MessageQueue("t", "a", 0): 3, MessageQueue("t", "a", 1): 7}
    assert peer.asked[-1].timestamp == 0
    assert peer.asked[-1].queue_id == -1


def test_a_dry_run_and_the_question_say_what_comes_again(
    rocketmq: LocalBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    server = ["--namesrv", rocketmq.namesrv]
    rocketmq.create_topic("reset-shown", 1)
    assert run(["produce", *server, "--topic", "reset-shown", "--body", "x", "--count", "3", "--quiet"]) == 0
    consume = ["consume", *server, "--topic", "reset-shown", "--group", "reset-shown", "--from", "first"]
    assert run([*consume, "--max", "3"]) == 0
    reset = ["admin", "group", "reset-offset", "reset-shown", "reset-shown", *server]
    capsys.readouterr()
    assert run([*reset, "--to", "earliest", "--dry-run"]) == 0
    assert "nothing was changed: 3 messages again, 0 messages skipped" in capsys.readouterr().out
    assert run([*reset, "--queue", "0", "--offset", "1", "--dry-run"]) == 0
    assert "2 messages again" in capsys.readouterr().out
    assert run([*reset, "--to", "earliest", "--queue", "1", "--dry-run"]) == 0
    assert "0 messages again" in capsys.readouterr().out, "there is no such queue"
    assert run([*reset, "--to", "2020-01-01", "--dry-run"]) == 0
    assert "3 messages again" in capsys.readouterr().out
    assert run([*reset, "--to", "earliest"]) != 0, "nobody answers the question"
    assert "3 messages again, 0 messages skipped?" in capsys.readouterr().err
    assert run([*reset, "--to", "latest", "--dry-run"]) == 0
    assert "0 messages again, 0 messages skipped" in capsys.readouterr().out, "it was not reset"


def test_a_reset_of_an_unknown_group_names_those_that_are_like_it(
    rocketmq: LocalBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    server = ["--namesrv", rocketmq.namesrv]
    rocketmq.create_topic("reset-known", 1)
    assert run(["admin", "group", "create", "reset-known", *server]) == 0
    reset = ["admin", "group", "reset-offset", "reset-knwon", "reset-known", "--to", "latest", *server]
    assert run([*reset, "--dry-run"]) == 1
    assert "no broker knows a group reset-knwon. Is it reset-known" in capsys.readouterr().err
    reset[3] = "reset-known"
    assert run([*reset, "--dry-run"]) == 0, "it has no offsets yet"


def test_the_status_of_the_queues_that_stored_a_message_last(
    rocketmq: LocalBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    server = ["--namesrv", rocketmq.namesrv]
    rocketmq.create_topic("status-newest", 8)
    assert (
        run(["produce", *server, "--topic", "status-newest", "--body", "x", "--count", "3", "--quiet"]) == 0
    )
    capsys.readouterr()
    status = ["admin", "topic", "status", "status-newest", *server]
    assert run(status) == 0
    assert "3 messages in 8 queues\n" in capsys.readouterr().out
    assert run([*status, "--newest", "2"]) == 0
    assert "2 messages in 2 queues; 1 other queue with messages" in capsys.readouterr().out


def test_a_topic_of_very_many_queues_is_asked_about(
    rocketmq: LocalBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    create = ["admin", "topic", "create", "reset-many", "--namesrv", rocketmq.namesrv]
    assert run([*create, "--queues", "1025"]) != 0
    assert "Create 1,025 queues of reset-many on each broker?" in capsys.readouterr().err
    assert run([*create, "--queues", "1025", "--yes"]) == 0
    assert run([*create, "--queues", "1024"]) == 0


def test_a_broker_of_ours_is_listed_by_its_own_version(
    rocketmq: LocalBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["admin", "cluster", "list", "--namesrv", rocketmq.namesrv, "--json"]) == 0
    assert f"OrbitMQ {__version__} (V5_" in capsys.readouterr().out
    assert run(["ping", "--broker", rocketmq.broker, "--namesrv", rocketmq.namesrv]) == 0
    assert f"version OrbitMQ {__version__} (V5_" in capsys.readouterr().out
