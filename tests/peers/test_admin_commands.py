"""Every `orbitmq admin` command, once against OrbitMQ and once against Apache's broker."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from orbitmq import Message, Producer, TransactionProducer
from orbitmq.cli.app import run
from tests.kit.waiting_messages import undecided

pytestmark = pytest.mark.timeout(600)
Ask = Callable[..., Any]


@pytest.fixture
def ask(cluster: Any, capfd: pytest.CaptureFixture[str]) -> Ask:
    """Runs a command with --json and gives what it said."""

    def asked(*arguments: str, code: int = 0) -> Any:
        capfd.readouterr()
        assert run(["admin", *arguments, "--namesrv", cluster.namesrv, "--json"]) == code
        captured = capfd.readouterr()
        return json.loads(captured.out) if code == 0 else captured.err

    return asked


@pytest.fixture
def produce(cluster: Any, capfd: pytest.CaptureFixture[str]) -> Ask:
    """Sends through `orbitmq produce` and gives where the messages went."""

    def produced(*arguments: str) -> list[Any]:
        capfd.readouterr()
        assert run(["produce", *arguments, "--namesrv", cluster.namesrv, "--json"]) == 0
        return [json.loads(line) for line in capfd.readouterr().out.splitlines()]

    return produced


def eventually(look: Callable[[], Any], within_s: float = 20) -> Any:
    """The result of `look` as soon as it is true; queries and statistics follow a little behind."""
    deadline = time.monotonic() + within_s
    while not (found := look()) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert found
    return found


def test_cluster_and_broker(ask: Ask, cluster: Any) -> None:
    def active() -> Any:
        [row] = ask("cluster", "list")
        return row if row["state"] != "refusing" else None  # Apache's broker refuses while it starts

    row = eventually(active)
    assert (row["cluster"], row["broker"], row["brokerId"]) == ("DefaultCluster", "broker-a", 0)
    assert (row["address"], row["state"]) == (cluster.broker, "active")
    assert "V5_4_0" in row["version"]
    status = ask("broker", "status", "broker-a")
    assert status["brokerVersionDesc"] == "V5_4_0"
    assert ask("broker", "status", cluster.broker).keys() == status.keys()
    options = ask("broker", "config", "broker-a")
    assert options["brokerName"] == "broker-a"
    assert len(options) > 400
    assert set(ask("broker", "config", "broker-a", "--filter", "DISK").keys()) >= {"flushDiskType"}
    assert "no broker named nobody" in ask("broker", "status", "nobody", code=1)


def test_an_option_is_changed_and_changed_back(ask: Ask) -> None:
    for value in ("71", "72"):
        assert ask("broker", "set", "broker-a", f"fileReservedTime={value}")["options"] == {
            "fileReservedTime": value
        }
        assert ask("broker", "config", "broker-a", "--filter", "fileReservedTime") == {
            "fileReservedTime": value
        }
    assert "NO_PERMISSION" in ask("broker", "set", "broker-a", "brokerConfigPath=/tmp/x", code=1)


def test_the_life_of_a_topic(ask: Ask, produce: Ask) -> None:
    topic = "admin-topic"
    assert ask("topic", "create", topic, "--queues", "3")["brokers"] == ["broker-a"]
    assert {"topic": topic} in eventually(lambda: ask("topic", "list"))
    assert {"topic": "TBW102"} not in ask("topic", "list")
    assert {"topic": "TBW102"} in ask("topic", "list", "--all")
    assert {"topic": topic} in ask("topic", "list", "--cluster", "DefaultCluster")
    [route] = ask("topic", "route", topic)
    assert (route["readQueues"], route["writeQueues"], route["perm"]) == (3, 3, "RW-")
    [sent] = produce("--topic", topic, "--body", "x")
    rows = {row["queueId"]: row for row in ask("topic", "status", topic)}
    assert [rows[queue]["maxOffset"] for queue in range(3)] == [
        int(queue == sent["queueId"]) for queue in range(3)
    ]
    assert rows[sent["queueId"]]["lastUpdate"] > 1_700_000_000_000
    assert ask("topic", "perm", topic, "4")["before"] == {"broker-a": 6}
    assert eventually(lambda: ask("topic", "route", topic)[0]["perm"] == "R--")
    assert ask("topic", "create", topic, "--queues", "4", "--attribute", "message.type=NORMAL")
    assert eventually(lambda: ask("topic", "route", topic)[0]["writeQueues"] == 4)
    assert ask("topic", "delete", topic, "--yes")["brokers"] == ["broker-a"]
    assert "TOPIC_NOT_EXIST" in ask("topic", "route", topic, code=1)
    assert "TOPIC_NOT_EXIST" in ask("topic", "status", topic, code=1)
    assert "INVALID_PARAMETER" in ask("topic", "create", "no/name", code=1)


def test_the_life_of_a_group(ask: Ask, produce: Ask, cluster: Any, capfd: pytest.CaptureFixture[str]) -> None:
    topic, group = "admin-group-topic", "admin-group"
    ask("topic", "create", topic, "--queues", "2")
    ask("group", "create", group, "--max-retries", "3")
    ask("group", "create", group, "--retry-queues", "2")
    [row] = [row for row in ask("group", "list") if row["group"] == group]
    assert (row["retryMax"], row["retryQueues"]) == (3, 2), "what is not given stays"
    assert "TOOLS_CONSUMER" not in {row["group"] for row in ask("group", "list")}
    assert "has no offsets" in ask("group", "progress", group, code=1)
    assert "CONSUMER_NOT_ONLINE" in ask("group", "connections", group, code=1)
    produce("--topic", topic, "--body", "x", "--count", "5")
    reading = ["consume", "--topic", topic, "--group", group, "--from", "first", "--namesrv", cluster.namesrv]
    assert run([*reading, "--max", "5"]) == 0

    def lag() -> int:
        rows = ask("group", "progress", group, "--topic", topic)
        return sum(row["lag"] for row in rows)

    assert lag() == 0
    [overview] = [row for row in ask("group", "progress") if row["group"] == group]
    assert (overview["members"], overview["lag"]) == (0, 0)
    rows = ask("group", "reset-offset", group, topic, "--to", "earliest", "--yes")
    assert [(row["queueId"], row["offset"]) for row in rows] == [(0, 0), (1, 0)]
    assert lag() == 5
    assert [row["lag"] for row in ask("stats", "all", "--topic", topic) if row["group"] == group] == [5]
    ask("group", "reset-offset", group, topic, "--to", "latest", "--yes")
    assert lag() == 0
    [row] = ask("group", "reset-offset", group, topic, "--queue", "1", "--offset", "0", "--yes")
    assert (row["queueId"], row["offset"]) == (1, 0)
    assert "TOPIC_NOT_EXIST" in ask("group", "reset-offset", group, "nowhere", "--to", "now", "--yes", code=1)
    assert ask("group", "delete", group, "--yes")["brokers"] == ["broker-a"]
    assert group not in {row["group"] for row in ask("group", "list")}


def test_who_is_connected(ask: Ask, cluster: Any) -> None:
    import asyncio

    from orbitmq.admin import Admin
    from orbitmq.admin.groups import group_connections
    from orbitmq.client import PushConsumer

    ask("topic", "create", "admin-connected")

    async def connected() -> list[str]:
        consumer = PushConsumer("admin-connected", cluster.namesrv)
        consumer.subscribe("admin-connected", "a || b")
        async with consumer, Admin(cluster.namesrv) as admin:
            found = await group_connections(admin, "admin-connected")
            assert [member.client_id for member in found.connection_set] == [consumer.client_id]
            return [found.subscription_table["admin-connected"].sub_string]

    assert asyncio.run(connected()) == ["a || b"]


def test_messages_by_every_name(ask: Ask, produce: Ask) -> None:
    topic = "admin-messages"
    ask("topic", "create", topic, "--queues", "1")
    [first, second] = (
        produce("--topic", topic, "--body", text, "--key", "k1", "--key", "k2", "--tag", "t")[0]
        for text in ("hello ü", "again")
    )
    by_id = ask("message", "id", first["offsetMessageId"])
    assert (by_id["topic"], by_id["body"], by_id["keys"], by_id["tags"]) == (
        topic,
        "hello ü",
        ["k1", "k2"],
        "t",
    )
    assert by_id["uniqueId"] == first["messageId"]
    rows = eventually(lambda: _two(ask, topic, "k2"))
    assert [row["uniqueId"] for row in rows] == [first["messageId"], second["messageId"]]
    assert ask("message", "unique-id", topic, second["messageId"])["body"] == "again"
    assert ask("message", "offset", topic, "broker-a", "0", "1")["body"] == "again"
    assert "no message" in ask("message", "offset", topic, "broker-a", "0", "7", code=1)
    assert "no message" in ask("message", "key", topic, "nobody", code=1)
    assert "no message" in ask("message", "unique-id", topic, "nobody", code=1)
    assert "SYSTEM_ERROR" in ask("message", "id", first["offsetMessageId"][:-8] + "0FFFFFFF", code=1)


def _two(ask: Ask, topic: str, key: str) -> Any:
    try:
        rows = ask("message", "key", topic, key)
    except AssertionError:
        return None  # not indexed yet
    return rows if len(rows) == 2 else None


def test_key_value_configuration(ask: Ask) -> None:
    ask("kv", "put", "admin-ns", "b", "2")
    ask("kv", "put", "admin-ns", "a", "1 = x")
    assert ask("kv", "list", "admin-ns") == {"a": "1 = x", "b": "2"}
    assert ask("kv", "get", "admin-ns", "a") == {"a": "1 = x"}
    ask("kv", "delete", "admin-ns", "a")
    assert "QUERY_NOT_FOUND" in ask("kv", "get", "admin-ns", "a", code=1)
    assert "QUERY_NOT_FOUND" in ask("kv", "list", "admin-none", code=1)


def test_statistics(ask: Ask, produce: Ask) -> None:
    topic = "admin-stats"
    ask("topic", "create", topic, "--queues", "1")
    produce("--topic", topic, "--body", "x", "--count", "20")
    [row] = ask("stats", "all", "--topic", topic)
    assert (row["topic"], row["group"], row["lag"]) == (topic, None, 0)
    eventually(lambda: ask("stats", "all", "--topic", topic)[0]["inDay"] >= 20, within_s=40)
    assert topic in {row["topic"] for row in ask("stats", "all", "--active")}
    assert "TOPIC_NOT_EXIST" in ask("stats", "all", "--topic", "nowhere", code=1)


def test_what_waits_is_listed_and_a_timer_is_taken_back(ask: Ask, cluster: Any) -> None:
    async def send() -> str:
        async with Producer("admin-waiting", cluster.namesrv) as producer:
            await producer.send(Message(topic, b"level", delay_level=18))
            return (await producer.send(Message(topic, b"timer", delay_ms=7_200_000))).message_id

    topic = "admin-waiting"
    ask("topic", "create", topic, "--queues", "1")
    ask("broker", "set", "broker-a", "recallMessageEnable=true")
    unique_id = asyncio.run(send())

    def waiting(kind: str) -> list[Any]:
        return [row for row in ask("delay", "list") if row["kind"] == kind]

    [level] = eventually(lambda: [row for row in waiting("level") if row["level"] == 18])
    assert (level["pending"], level["delayMs"]) == (1, 7_200_000)
    assert level["nextDue"] > 1000 * time.time() + 3_600_000
    [timer] = eventually(lambda: ask("delay", "timers", "--topic", topic))
    assert timer["uniqueId"] == unique_id
    assert ask("delay", "recall", topic, timer["uniqueId"], "--yes")["topic"] == topic
    assert ask("delay", "timers", "--topic", topic) == []
    assert "is pending" in ask("delay", "recall", topic, timer["uniqueId"], "--yes", code=1)


def test_transactions_without_a_decision(ask: Ask, cluster: Any) -> None:
    async def leave_open() -> None:
        async with TransactionProducer("admin-deciders", cluster.namesrv, check=undecided) as producer:
            await producer.send_half(Message("admin-half", b"half"))

    ask("topic", "create", "admin-half", "--queues", "1")
    asyncio.run(leave_open())
    [half] = eventually(lambda: [row for row in ask("transaction", "list") if row["topic"] == "admin-half"])
    assert (half["state"], half["group"], half["broker"]) == ("open", "admin-deciders", "broker-a")
    # Between the look and the order the broker may have put a copy in its place.
    answer = {}

    def checked() -> bool:
        for row in ask("transaction", "list"):
            if row["topic"] == "admin-half":
                answer.update(ask("transaction", "check", "broker-a", row["messageId"]))
        return bool(answer)

    eventually(checked)
    assert answer["broker"] == "broker-a"


def test_options_side_by_side_and_maintenance(ask: Ask) -> None:
    rows = ask("cluster", "config", "--filter", "flushDiskType")
    assert [set(row.values()) >= {"ASYNC_FLUSH"} for row in rows] == [True]
    assert ask("cluster", "config", "--different") == []
    assert ask("broker", "drain", "broker-a", "--yes")["topics"] > 0
    assert [row["drained"] for row in ask("cluster", "namesrv")] == [["broker-a"]]
    assert ask("broker", "undrain", "broker-a")["topics"] > 0
    assert [row["drained"] for row in ask("cluster", "namesrv")] == [[]]
    assert "no broker named nobody" in ask("broker", "drain", "nobody", "--yes", code=1)


def test_access_without_access_control(ask: Ask) -> None:
    [row] = ask("acl", "explain", "ann", "--resource", "Topic:orders", "--action", "pub")
    assert (row["broker"], row["allowed"], row["cause"]) == ("broker-a", True, "OPEN")
    assert "names no resource" in ask("acl", "explain", "ann", "--resource", "x", "--action", "pub", code=1)
