"""The part of a read that may go a fast path where access is controlled: what the gate lets in, as things are
now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from orbitmq.broker.auth import admission_cy
from orbitmq.broker.auth.gate import MAX_DECISIONS, Gate
from orbitmq.broker.auth.policies import PolicyType, parse_resource
from orbitmq.broker.auth.table import AuthTable
from orbitmq.protocol.bodies.auth import Policy, User
from orbitmq.protocol.remoting.command import FLAG_ONEWAY, Command
from orbitmq.protocol.remoting.frame import encode_command
from orbitmq.protocol.remoting.signing import Credentials
from orbitmq.protocol.requests.offset import GetMaxOffset
from orbitmq.protocol.requests.pop import AckMessage, PopMessage
from orbitmq.protocol.requests.pull import PullMessage
from orbitmq.protocol.requests.send import SendBatchMessage, SendMessage
from orbitmq.protocol.requests.transaction import EndTransaction
from orbitmq.protocol.schema.declare import Request
from tests.kit.access import ANN, NOW, ROOT, entry, gate, peer, signed, table
from tests.kit.real_broker import message

IS_COMPILED = not (admission_cy.__file__ or "").endswith(".py")
pytestmark = pytest.mark.skipif(not IS_COMPILED, reason="interpreted, all requests go the general path")
STATEFUL = "org.apache.rocketmq.auth.authentication.strategy.StatefulAuthenticationStrategy"

SEND = message(topic="orders", body=b"x" * 100)
LARGE = message(topic="orders", body=bytes(range(256)) * 20)
PULL = PullMessage(
    consumer_group="own",
    topic="orders",
    queue_id=0,
    queue_offset=0,
    max_msg_nums=32,
    sys_flag=6,
    commit_offset=0,
    suspend_timeout_millis=15_000,
    sub_version=0,
    subscription="*",
)
POP = PopMessage("own", "orders", -1, 32, 60_000, 0, NOW, 0)
ACK = AckMessage("own", "orders", 0, "0 1 60000 0 0 broker-a 0 7", 7)
END = EndTransaction("PG", 0, 0, 8, "7F000001ABCD", "orders", False, "7F000001ABCD")
BATCH = SendBatchMessage(**{row.name: getattr(SEND, row.name) for row in SendBatchMessage.FIELDS})
FAST: dict[str, Request[Any]] = {
    "send": SEND,
    "large send": LARGE,
    "batch": BATCH,
    "end of a transaction": END,
    "pull": PULL,
    "pop": POP,
    "acknowledgement": ACK,
}


def frame(request: Request[Any], who: Credentials = ANN, **changes: Any) -> bytes:
    command = signed(request, who)
    for name, value in changes.items():
        setattr(command, name, value)
    return encode_command(command)


def rules() -> AuthTable:
    return table(entry("Topic:orders"), entry("Group:own"))


def admitted(of: Gate, data: bytes, **whence: Any) -> int:
    return of.admitted_bytes(data, peer(**whence), NOW)


@pytest.mark.parametrize("request_", FAST.values(), ids=FAST)
@pytest.mark.parametrize("who", [ANN, ROOT, Credentials("ann", "ann-secret", "a token")], ids=str)
def test_what_may_be_served_is_admitted_with_all_that_is_behind_it(
    request_: Request[Any], who: Credentials
) -> None:
    data = frame(request_, who)
    asked = gate(rules())
    assert admitted(asked, data) == len(data)
    oneway = frame(request_, who, flag=FLAG_ONEWAY)
    assert admitted(asked, data + oneway + data) == 2 * len(data) + len(oneway)
    assert admitted(asked, data + data[:-1]) == len(data)
    assert admitted(asked, data + frame(GetMaxOffset("orders", 0)) + data) == len(data)


CHANGES: dict[str, Callable[[AuthTable], object]] = {
    "another password": lambda users: users.put_user(User("ann", "changed", user_type=2, user_status=1)),
    "the user is disabled": lambda users: users.put_user(
        User("ann", "ann-secret", user_type=2, user_status=2)
    ),
    "the user is gone": lambda users: users.delete_user("ann"),
    "the rule is gone": lambda users: users.delete_acl(
        "ann", PolicyType.CUSTOM, parse_resource("Topic:orders")
    ),
    "no rules at all": lambda users: users.delete_acl("ann", PolicyType.CUSTOM, None),
    "the rule denies": lambda users: put_rules(users, entry("Topic:orders", "All", "Deny")),
    "a rule denies from here": lambda users: put_rules(
        users, entry("Topic:orders", "All", "Deny", "10.0.0.0/24")
    ),
    "allowed from elsewhere": lambda users: put_rules(
        users, entry("Topic:orders", "All", "Allow", "10.0.0.8")
    ),
    "other actions": lambda users: put_rules(users, entry("Topic:orders", "Get|Create")),
    "everything anew": lambda users: users.replace_all({}, {}),
    "another file": lambda users: users.load_text('{"users":{},"acls":{}}'),
}


def put_rules(users: AuthTable, *entries: Any) -> None:
    users.merge_acl("ann", [Policy(PolicyType.CUSTOM, list(entries))])


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("request_", FAST.values(), ids=FAST)
def test_what_is_allowed_may_change_between_two_frames(
    change: Callable[[AuthTable], object], request_: Request[Any]
) -> None:
    users = rules()
    asked, data = gate(users), frame(request_)
    assert admitted(asked, data * 2) == 2 * len(data)
    change(users)
    assert admitted(asked, data) == 0
    assert asked.refusal(signed(request_), peer(), NOW) is not None


@pytest.mark.parametrize(
    ("users", "changed"),
    [
        (table(), lambda users: put_rules(users, entry("*"))),
        (table(entry("*", "All", "Deny")), lambda users: put_rules(users, entry("*"))),
        (table(), lambda users: users.put_user(User("ann", "ann-secret", user_type=1, user_status=1))),
    ],
    ids=["a first rule", "another decision", "a super user"],
)
def test_what_was_refused_may_be_allowed(users: AuthTable, changed: Callable[[AuthTable], object]) -> None:
    asked, data = gate(users), frame(SEND)
    assert admitted(asked, data) == 0
    changed(users)
    assert admitted(asked, data) == len(data)


def test_a_grant_is_for_one_address_one_user_and_one_kind_of_request() -> None:
    users = table(entry("Topic:orders", "Pub|Sub", "Allow", "10.0.0.9"))
    users.put_user(User("bob", "ann-secret", user_type=2, user_status=1))
    asked, data = gate(users), frame(SEND)
    assert admitted(asked, data) == len(data)
    assert admitted(asked, data, host="10.0.0.8") == 0
    assert admitted(asked, data + frame(SEND, Credentials("bob", "ann-secret"))) == len(data)
    assert admitted(asked, data + frame(message(topic="other"))) == len(data)
    assert admitted(asked, data + frame(PULL)) == len(data), "its group is not allowed"


def test_the_names_in_a_grant_do_not_run_into_each_other() -> None:
    users = table(entry("Topic:ab"), entry("Group:c"))
    asked = gate(users)
    ok = frame(PopMessage("c", "ab", -1, 32, 60_000, 0, NOW, 0))
    other = frame(PopMessage("bc", "a", -1, 32, 60_000, 0, NOW, 0))
    assert admitted(asked, ok + other) == len(ok)


@pytest.mark.parametrize(
    "tamper",
    [
        lambda command: command.ext.update(b="mine"),
        lambda command: command.ext.update(e="3"),
        lambda command: command.ext.update(zz="more"),
        lambda command: command.ext.pop("e"),
        lambda command: command.ext.pop("Signature"),
        lambda command: command.ext.update(Signature=""),
        lambda command: command.ext.update(Signature=command.ext["Signature"][:-1]),
        lambda command: command.ext.update(Signature=command.ext["Signature"].lower()),
        lambda command: command.ext.update(AccessKey="root"),
        lambda command: command.ext.pop("AccessKey"),
        lambda command: setattr(command, "body", command.body[:-1] + b"y"),
        lambda command: setattr(command, "body", None),
    ],
)
@pytest.mark.parametrize("request_", [SEND, LARGE], ids=["small", "large"])
def test_what_was_tampered_with_is_left(request_: Request[Any], tamper: Callable[[Command], object]) -> None:
    command = signed(request_)
    tamper(command)
    asked = gate(table(entry("*")))
    assert admitted(asked, frame(request_) + encode_command(command)) == len(frame(request_))
    assert asked.refusal(command, peer(), NOW) is not None


def test_names_that_need_escapes_or_are_too_long_are_left_to_be_decided_by_themselves() -> None:
    asked = gate(table(entry("*")))
    for topic in ('a"b', "\u00fc", "a\\b", "t" * 1100):
        command = signed(message(topic=topic))
        assert asked.refusal(command, peer(), NOW) is None
        assert admitted(asked, encode_command(command)) == 0


def test_a_decision_that_names_no_topic_is_left_to_be_decided_by_its_half_message() -> None:
    command = signed(EndTransaction("PG", 0, 0, 8, "7F000001ABCD"))
    assert gate(table(entry("*"))).refusal(command, peer(), NOW) is None
    assert admitted(gate(table(entry("*"))), encode_command(command)) == 0


def test_a_field_that_is_there_twice_is_left() -> None:
    data = frame(SEND)
    header = data[8 : 8 + int.from_bytes(data[5:8], "big")]
    twice = header.replace(b'"extFields":{', b'"extFields":{"AccessKey":"root",')
    assert twice != header
    body = data[8 + len(header) :]
    length = (4 + len(twice) + len(body)).to_bytes(4, "big")
    assert admitted(gate(rules()), length + len(twice).to_bytes(4, "big") + twice + body) == 0


def test_what_old_clients_do_not_sign_is_for_the_rule_about_it() -> None:
    command = signed(SEND)
    command.version = 300
    assert command.ext is not None
    command.ext["_UNIQUE_KEY_QUERY"] = "true"
    asked = gate(rules())
    assert asked.refusal(command, peer(), NOW) is None
    assert admitted(asked, encode_command(command)) == 0


def test_requests_that_need_no_signature_or_no_rule() -> None:
    unsigned = message(topic="orders").to_command(1)
    unsigned.ext = {**(unsigned.ext or {}), "AccessKey": "ann"}
    data = encode_command(unsigned)
    assert admitted(gate(rules()), data) == 0
    assert admitted(gate(rules(), authenticationEnabled=False), data) == len(data)
    assert admitted(gate(rules(), authenticationWhitelist="310"), data) == len(data)
    assert admitted(gate(table(), authenticationEnabled=False), data) == 0
    elsewhere = frame(message(topic="other"))
    assert admitted(gate(rules()), elsewhere) == 0
    assert admitted(gate(rules(), authorizationEnabled=False), elsewhere) == len(elsewhere)
    assert admitted(gate(rules(), authorizationWhitelist="310"), elsewhere) == len(elsewhere)


def test_where_one_signature_counts_for_a_connection_it_counts_for_as_long_as_the_gate_says() -> None:
    asked = gate(rules(), authenticationStrategy=STATEFUL, statefulAuthenticationCacheExpiredSecond=10)
    data = frame(SEND)
    assert admitted(asked, data) == 0, "the first request of a connection is decided by itself"
    assert asked.refusal(signed(SEND), peer(), NOW) is None
    unsigned = signed(SEND)
    assert unsigned.ext is not None
    unsigned.ext["Signature"] = "wrong"
    for later, counts in ((0, True), (9_999, True), (10_000, False)):
        for each in (data, encode_command(unsigned)):
            assert asked.admitted_bytes(each, peer(), NOW + later) == counts * len(each)
    assert admitted(asked, data, connection_id=2) == 0
    assert asked.refusal(signed(SEND, Credentials("ann", "wrong")), peer(connection_id=3), NOW) is not None
    assert admitted(asked, data, connection_id=3) == 0


def test_other_requests_and_answers_are_left() -> None:
    asked = gate(rules())
    old = SendMessage("PG", "orders", "TBW102", 4, 0, 0, NOW, 0, "")
    assert admitted(asked, frame(old)) == 0
    assert admitted(asked, frame(SEND, flag=1)) == 0
    assert admitted(asked, frame(SEND, serialize=1)) == 0
    assert admitted(asked, b"") == 0


def test_grants_take_a_bounded_part_of_memory() -> None:
    asked = gate(table(entry("*")), authenticationEnabled=False)
    for number in range(MAX_DECISIONS + 5):
        command = message(topic=f"t{number}").to_command(1)
        command.ext = {**(command.ext or {}), "AccessKey": "ann"}
        assert admitted(asked, encode_command(command))
    assert len(asked.granted) == 5
