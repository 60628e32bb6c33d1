"""The steps of a migration, by what a group has."""

from __future__ import annotations

import shlex

from orbitmq.admin.admin import BrokerAt
from orbitmq.admin.migration.plan import plan_group
from orbitmq.admin.replication.survey import APACHE, ORBITMQ, GroupSurvey, Replica
from orbitmq.options.properties import parse_properties

NAMESRV = "ns1:9876;ns2:9876"


def member(make: str, broker_id: int, log_end: int = 100, **options: str) -> Replica:
    at = BrokerAt("east", "broker-a", broker_id, f"h{broker_id}:10911")
    return Replica(at, make, {"commitLogMaxOffset": str(log_end), "brokerVersionDesc": "V5_4_0"}, options)


def states(*members: Replica, to: str = ORBITMQ) -> list[tuple[str, str]]:
    return [
        (step.state, step.what) for step in plan_group(GroupSurvey("broker-a", tuple(members)), to, NAMESRV)
    ]


def test_a_master_alone_gets_a_slave_with_its_options() -> None:
    master = member(
        APACHE, 0, mappedFileSizeCommitLog="16777216", messageDelayLevel="1s 2s", flushDiskType="SYNC_FLUSH"
    )
    first, *others = plan_group(GroupSurvey("broker-a", (master,)), ORBITMQ, NAMESRV)
    words = shlex.split(first.command)
    assert words[:4] == ["orbitmq", "broker", "--namesrv", NAMESRV]
    assert words[words.index("--broker-id") + 1] == "1"
    assert {
        "brokerClusterName=east", "brokerName=broker-a", "brokerRole=SLAVE", "flushDiskType=SYNC_FLUSH",
        "messageDelayLevel=1s 2s", "mappedFileSizeCommitLog=16777216",
    } <= set(words)  # fmt: skip
    assert {step.state for step in (first, *others)} == {"open"}
    assert any(step.command == f"orbitmq migrate switch broker-a --namesrv '{NAMESRV}'" for step in others)


def test_names_of_the_cluster_stay_single_words_of_a_shell_and_no_listener_is_open() -> None:
    hostile = "a'; touch /tmp/x; '$(id)"
    at = BrokerAt(hostile, hostile, 0, "h0:10911")
    options = {"messageDelayLevel": "1s $(id)", "flushDiskType": "`id`\nx"}
    for make, to in ((APACHE, ORBITMQ), (ORBITMQ, APACHE)):
        found = GroupSurvey(hostile, (Replica(at, make, {"commitLogMaxOffset": "1"}, options),))
        first, *others = plan_group(found, to, "ns1:9876;$(id):1")
        assert "0.0.0.0" not in first.command
        for step in others:
            if step.command:
                words = shlex.split(step.command)
                assert words[3] == hostile
                assert words[words.index("--namesrv") + 1] == "ns1:9876;$(id):1"
    words = shlex.split(
        plan_group(
            GroupSurvey(hostile, (Replica(at, APACHE, {"commitLogMaxOffset": "1"}, options),)),
            ORBITMQ,
            NAMESRV,
        )[0].command
    )
    assert {f"brokerName={hostile}", f"brokerClusterName={hostile}", "messageDelayLevel=1s $(id)"} <= set(
        words
    )
    assert words[-2:] == ["--listen", "ADDRESS"]


def test_a_slave_of_the_old_make_gives_its_store_and_its_id() -> None:
    found = GroupSurvey("broker-a", (member(APACHE, 0), member(APACHE, 3)))
    first = plan_group(found, ORBITMQ, NAMESRV)[0]
    assert "stop the slave Apache RocketMQ h3:10911" in first.what
    assert "--broker-id 3 " in first.command


def test_a_new_slave_of_a_master_with_access_control_is_told_how_it_gets_users() -> None:
    ours = plan_group(
        GroupSurvey("broker-a", (member(APACHE, 0, authenticationEnabled="true"),)), ORBITMQ, NAMESRV
    )[0]
    assert "innerClientAuthenticationCredentials" in ours.what
    assert "authenticationEnabled=true" in shlex.split(ours.command)
    theirs = plan_group(
        GroupSurvey("broker-a", (member(ORBITMQ, 0, authenticationEnabled="true"),)), APACHE, NAMESRV
    )[0]
    assert "orbitmq admin acl copy" in theirs.what


def test_what_is_done_is_told() -> None:
    following = states(member(APACHE, 0), member(ORBITMQ, 1), member(APACHE, 2))
    assert following[0] == ("done", "OrbitMQ h1:10911 follows as a slave")
    assert following[1] == ("done", "wait until the slave has everything")
    assert following[-1][1].startswith("replace the slave Apache RocketMQ h2:10911")
    behind = states(member(APACHE, 0), member(ORBITMQ, 1, log_end=60))
    assert behind[1][0] == "open"
    assert states(member(ORBITMQ, 0), member(ORBITMQ, 1)) == [
        ("done", "OrbitMQ h0:10911 is master"),
        ("done", "all members are OrbitMQ"),
    ]


def test_the_way_back_shows_a_broker_conf() -> None:
    found = GroupSurvey("broker-a", (member(ORBITMQ, 0),))
    first = plan_group(found, APACHE, NAMESRV)[0]
    assert first.command.startswith("broker.conf: ")
    assert "brokerId=1" in first.command
    assert parse_properties("\n".join(first.command.split()).encode(), "plan")["namesrvAddr"] == NAMESRV


def test_without_a_master_there_is_one_step() -> None:
    assert [state for state, _ in states(member(APACHE, 1))] == ["open"]
