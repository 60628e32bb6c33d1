"""Users who get through the gate."""

import pytest

from orbitmq.broker.auth.gate import MAX_DECISIONS
from orbitmq.protocol.bodies.auth import User
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.remoting.signing import Credentials
from orbitmq.protocol.requests.admin import GetBrokerConfig
from orbitmq.protocol.requests.offset import GetMaxOffset
from tests.kit.access import NOW, ROOT, entry, gate, peer, signed, table

STATEFUL = "org.apache.rocketmq.auth.authentication.strategy.StatefulAuthenticationStrategy"
ASK = GetMaxOffset("orders", 0)


def test_the_right_secret_is_let_in() -> None:
    users = table(entry("Topic:orders", "Get"))
    assert gate(users).refusal(signed(ASK), peer(), NOW) is None
    assert gate(users).refusal(signed(ASK, ROOT), peer(), NOW) is None


@pytest.mark.parametrize(
    ("who", "remark"),
    [
        (Credentials("ann", "wrong"), "check signature failed."),
        (Credentials("bob", "ann-secret"), "User:bob is not found."),
    ],
)
def test_others_hear_why_not(who: Credentials, remark: str) -> None:
    assert gate(table(entry("*"))).refusal(signed(ASK, who), peer(), NOW) == remark


def test_no_credentials() -> None:
    for command in (ASK.to_command(), Command(26), Command(99_999)):
        assert gate(table()).refusal(command, peer(), NOW) == "username cannot be null."


def test_a_signature_is_needed_beside_the_name() -> None:
    command = signed(ASK)
    assert command.ext is not None
    del command.ext["Signature"]
    assert gate(table(entry("*"))).refusal(command, peer(), NOW) == "check signature failed."


def test_a_body_that_was_tampered_with() -> None:
    command = signed(ASK)
    command.body = b"more"
    assert gate(table(entry("*"))).refusal(command, peer(), NOW) == "check signature failed."


def test_a_disabled_user_is_refused_though_the_secret_is_right() -> None:
    users = table(entry("*"))
    users.put_user(User("ann", "ann-secret", user_type=1, user_status=2))
    assert gate(users).refusal(signed(ASK), peer(), NOW) == "User:ann is disabled."
    without = gate(users, authenticationEnabled=False)
    assert without.refusal(signed(ASK), peer(), NOW) == "User:ann is disabled."


def test_rules_decide_for_users_who_are_not_super() -> None:
    remark = "User:ann has no permission to access Topic:orders from 10.0.0.9, "
    assert gate(table()).refusal(signed(ASK), peer(), NOW) == remark + "no matched policies."
    denied = table(entry("*", "All", "Deny"))
    assert gate(denied).refusal(signed(ASK), peer(), NOW) == remark + "the decision is deny."
    from_there = table(entry("*", "All", "Allow", "10.0.0.8"))
    assert gate(from_there).refusal(signed(ASK), peer("10.0.0.8"), NOW) is None
    assert gate(from_there).refusal(signed(ASK), peer(), NOW) == remark + "no matched policies."


def test_a_change_of_rules_counts_at_once() -> None:
    users = table()
    asked = gate(users)
    assert asked.refusal(signed(ASK), peer(), NOW) is not None
    users.merge_acl("ann", table(entry("Topic:orders", "Get")).acl("ann").policies)
    assert asked.refusal(signed(ASK), peer(), NOW) is None
    users.delete_user("ann")
    assert asked.refusal(signed(ASK), peer(), NOW) == "User:ann is not found."


def test_decisions_of_other_addresses_are_no_decisions() -> None:
    asked = gate(table(entry("*", "All", "Allow", "10.0.0.8")))
    assert asked.refusal(signed(ASK), peer("10.0.0.8"), NOW) is None
    assert asked.refusal(signed(ASK), peer("10.0.0.9"), NOW) is not None
    assert asked.refusal(signed(ASK), peer("10.0.0.8"), NOW) is None


def test_so_many_decisions_are_remembered_and_none_about_long_names(monkeypatch: pytest.MonkeyPatch) -> None:
    users = table(entry("Topic:t*", "Get"))
    asked, looks = gate(users), []
    rules = users.rules
    monkeypatch.setattr(users, "rules", lambda name: looks.append(name) or rules(name))

    def looks_for(topic: str) -> int:
        """Number of looks at the rules that a request for a topic takes."""
        before = len(looks)
        assert asked.refusal(signed(GetMaxOffset(topic, 0)), peer(), NOW) is None
        return len(looks) - before

    assert [looks_for("t0"), looks_for("t0")] == [1, 0]
    assert [looks_for("t" * 5000), looks_for("t" * 5000)] == [1, 1]
    for number in range(1, MAX_DECISIONS):
        assert looks_for(f"t{number}") == 1
    assert looks_for("t0") == 0
    assert looks_for(f"t{MAX_DECISIONS}") == 1
    assert looks_for("t0") == 1, "the memory was full"


def test_what_belongs_to_the_cluster_needs_a_rule_for_the_cluster() -> None:
    allowed = table(entry("Cluster:DefaultCluster", "Get"))
    assert gate(allowed).refusal(signed(GetBrokerConfig()), peer(), NOW) is None
    elsewhere = table(entry("Cluster:Other"), entry("Topic:*"), entry("Group:*"))
    assert "Cluster:DefaultCluster" in (gate(elsewhere).refusal(signed(GetBrokerConfig()), peer(), NOW) or "")


def test_requests_on_the_white_lists_pass() -> None:
    listed = gate(table(), authenticationWhitelist="30, 26", authorizationWhitelist="30")
    assert listed.refusal(ASK.to_command(), peer(), NOW) is None
    assert listed.refusal(signed(ASK, Credentials("ann", "wrong")), peer(), NOW) is None
    assert listed.refusal(GetBrokerConfig().to_command(), peer(), NOW) is not None
    assert gate(table(), authorizationWhitelist="30").refusal(ASK.to_command(), peer(), NOW) is not None


def test_each_check_can_be_off() -> None:
    only_names = gate(table(), authorizationEnabled=False)
    assert only_names.refusal(signed(ASK), peer(), NOW) is None
    assert only_names.refusal(signed(ASK, Credentials("ann", "wrong")), peer(), NOW) is not None
    only_rules = gate(table(entry("Topic:orders", "Get")), authenticationEnabled=False)
    assert only_rules.refusal(signed(ASK, Credentials("ann", "wrong")), peer(), NOW) is None
    assert only_rules.refusal(signed(GetMaxOffset("other", 0)), peer(), NOW) is not None
    assert only_rules.refusal(signed(ASK, Credentials("bob", "x")), peer(), NOW) == "User:bob not found."
    assert only_rules.refusal(ASK.to_command(), peer(), NOW) is not None


def test_stateful_one_signature_counts_for_a_connection_and_a_while() -> None:
    users = table(entry("*"))
    asked = gate(users, authenticationStrategy=STATEFUL, statefulAuthenticationCacheExpiredSecond=10)
    wrong = signed(ASK, Credentials("ann", "wrong"))
    assert asked.refusal(signed(ASK), peer(), NOW) is None
    assert asked.refusal(wrong, peer(), NOW + 9_999) is None
    assert asked.refusal(wrong, peer(), NOW + 10_000) == "check signature failed."
    assert asked.refusal(signed(ASK), peer(), NOW + 10_001) == "check signature failed."
    assert asked.refusal(signed(ASK), peer(connection_id=2), NOW + 10_001) is None
    users.put_user(User("ann", "new", user_type=2, user_status=1))
    assert asked.refusal(wrong, peer(connection_id=2), NOW + 10_002) == "check signature failed."


def test_stateful_signatures_of_so_many_connections_are_remembered() -> None:
    asked = gate(table(entry("*")), authenticationStrategy=STATEFUL, statefulAuthenticationCacheMaxNum=2)
    wrong = signed(ASK, Credentials("ann", "wrong"))
    for number in range(2):
        assert asked.refusal(signed(ASK), peer(connection_id=number), NOW) is None
    assert asked.refusal(wrong, peer(connection_id=0), NOW) is None, "its first signature counts for it"
    assert asked.refusal(signed(ASK), peer(connection_id=2), NOW) is None
    assert asked.refusal(wrong, peer(connection_id=0), NOW) == "check signature failed."


def test_a_request_that_no_row_knows_is_for_super_users(monkeypatch: pytest.MonkeyPatch) -> None:
    from orbitmq.broker.auth import gate as module

    monkeypatch.setattr(module, "NEEDS", {})
    asked = gate(table(entry("*")))
    assert asked.refusal(signed(ASK), peer(), NOW) == "only super users may send request 30."
    assert asked.refusal(signed(ASK, ROOT), peer(), NOW) is None
