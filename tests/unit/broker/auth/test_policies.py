"""The rule that decides."""

import ipaddress

import pytest

from orbitmq.broker.auth.policies import (
    Access,
    Action,
    BadResource,
    Decision,
    Kind,
    Rules,
    group_access,
    parse_resource,
    resource_key,
    topic_access,
)
from orbitmq.protocol.bodies.auth import Acl, Policy, PolicyEntry, User
from tests.kit.access import entry

PUB = frozenset({Action.PUB})
ALLOW, DENY = Decision.ALLOW, Decision.DENY


def decide(
    *entries: PolicyEntry,
    default: tuple[PolicyEntry, ...] = (),
    access: Access | None = None,
    source: str = "10.0.0.9",
) -> Decision | None:
    acl = Acl(User("ann"), [Policy(2, list(default)), Policy(1, list(entries))])
    return Rules(acl).decide(access or Access(Kind.TOPIC, "orders", PUB), ipaddress.ip_address(source))


@pytest.mark.parametrize("key", ["*", "Topic:*", "Topic:a", "Topic:a*", "Group:%RETRY%x", "Cluster:c"])
def test_resources_are_written_as_they_are_read(key: str) -> None:
    assert resource_key(parse_resource(key)) == key


def test_types_are_read_in_any_case() -> None:
    assert resource_key(parse_resource("tOPIC:x")) == "Topic:x"


@pytest.mark.parametrize(
    "key", [None, "", " ", "Topic", "Topic:", "Queue:x", "Any:x", "Unknown:x", "Namespace:x", "Topic:a*b*"]
)
def test_what_names_no_resource_is_refused(key: str | None) -> None:
    with pytest.raises(BadResource):
        parse_resource(key)


def test_nothing_fits() -> None:
    assert decide() is None
    assert decide(entry("Topic:other")) is None
    assert decide(entry("Group:orders")) is None
    assert decide(entry("Topic:orders", "Sub")) is None
    assert Rules(None).decide(Access(Kind.TOPIC, "orders", PUB), None) is None


def test_patterns() -> None:
    for key in ("Topic:orders", "Topic:ord*", "Topic:orders*", "Topic:*", "*"):
        assert decide(entry(key, "Pub")) is ALLOW, key
    for key in ("Topic:order", "Topic:ordersx*", "Cluster:*"):
        assert decide(entry(key, "Pub")) is None, key


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Topic:orders", "Topic:order*"),
        ("Topic:order*", "Topic:o*"),
        ("Topic:o*", "Topic:*"),
        ("Topic:*", "*"),
        ("Topic:orders", "*"),
    ],
)
def test_the_more_specific_rule_decides_whatever_the_order(first: str, second: str) -> None:
    for word, decision in (("Allow", ALLOW), ("Deny", DENY)):
        other = "Deny" if word == "Allow" else "Allow"
        assert decide(entry(first, "Pub", word), entry(second, "Pub", other)) is decision
        assert decide(entry(second, "Pub", other), entry(first, "Pub", word)) is decision


def test_deny_comes_before_allow() -> None:
    assert decide(entry("Topic:*", "Pub", "Allow"), entry("Topic:*", "All", "Deny")) is DENY


def test_default_rules_count_where_no_custom_one_fits() -> None:
    assert decide(default=(entry("Topic:orders", "Pub"),)) is ALLOW
    assert decide(entry("*", "All", "Deny"), default=(entry("Topic:orders", "Pub"),)) is DENY
    assert decide(entry("*", "Sub", "Deny"), default=(entry("Topic:orders", "Pub"),)) is ALLOW


def test_one_of_the_actions_is_enough() -> None:
    access = Access(Kind.TOPIC, "orders", frozenset({Action.PUB, Action.SUB, Action.GET}))
    assert decide(entry("Topic:orders", "Get"), access=access) is ALLOW
    assert decide(entry("Topic:orders", "All"), access=access) is ALLOW
    assert decide(entry("Topic:orders", "Delete|List"), access=access) is None


@pytest.mark.parametrize(
    ("allowed", "source", "fits"),
    [
        ("10.0.0.9", "10.0.0.9", True),
        ("10.0.0.8", "10.0.0.9", False),
        ("10.0.0.0/24", "10.0.0.9", True),
        ("10.0.0.77/24", "10.0.0.9", True),
        ("10.0.1.0/24", "10.0.0.9", False),
        ("0.0.0.0/0", "10.0.0.9", True),
        ("2001:db8::/32", "2001:db8::1", True),
        ("2001:DB8:0:0::1", "2001:db8::1", True),
        ("0.0.0.0/0", "2001:db8::1", False),
    ],
)
def test_source_addresses(allowed: str, source: str, fits: bool) -> None:
    assert (decide(entry("*", "All", "Allow", allowed), source=source) is ALLOW) is fits
    assert decide(entry("*", "All", "Allow", "192.168.0.1", allowed), source=source) is (
        ALLOW if fits else None
    )


def test_a_retry_topic_stands_for_its_group() -> None:
    assert str(topic_access("%RETRY%G", PUB)) == "Group:G"
    assert str(topic_access("%DLQ%G", PUB)) == "Topic:%DLQ%G"
    assert str(group_access("%RETRY%G", PUB)) == "Group:G"
