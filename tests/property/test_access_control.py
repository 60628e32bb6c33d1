"""Signatures and rules against models that are written another way."""

from __future__ import annotations

import base64
import hashlib
import ipaddress

from hypothesis import example, given
from hypothesis import strategies as st

from orbitmq.broker.auth.policies import Access, Action, Decision, Kind, Pattern, Rules
from orbitmq.protocol.bodies.auth import Acl, Environment, Policy, PolicyEntry, Resource, User
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.remoting.frame import FrameSplitter, encode_command
from orbitmq.protocol.remoting.signing import Credentials, is_signed_with

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
NAMES = st.text("abcXYZ_019", min_size=1, max_size=12).filter(lambda name: name != "Signature")
FIELDS = st.dictionaries(NAMES, TEXT, max_size=8)
BODIES = st.none() | st.binary(min_size=1, max_size=60)
KEYS = st.builds(Credentials, TEXT.filter(str.strip), TEXT.filter(bool), st.none() | TEXT.filter(bool))


def hmac_sha1(key: bytes, message: bytes) -> bytes:
    """As the standard (RFC 2104) has it."""
    if len(key) > 64:
        key = hashlib.sha1(key).digest()
    key = key.ljust(64, b"\0")
    inner = hashlib.sha1(bytes(byte ^ 0x36 for byte in key) + message).digest()
    return hashlib.sha1(bytes(byte ^ 0x5C for byte in key) + inner).digest()


@given(KEYS, FIELDS, BODIES)
def test_a_signature_is_what_the_rule_says(
    keys: Credentials, fields: dict[str, str], body: bytes | None
) -> None:
    command = Command(310, ext=dict(fields), body=body)
    keys.sign(command)
    signed = {**fields, "AccessKey": keys.access_key}
    if keys.security_token is not None:
        signed["SecurityToken"] = keys.security_token
    message = b""
    for _, value in sorted(signed.items()):
        message += value.encode()
    wanted = base64.b64encode(hmac_sha1(keys.secret_key.encode(), message + (body or b""))).decode()
    assert command.ext == {**signed, "Signature": wanted}


@given(KEYS, FIELDS, BODIES, st.sampled_from([0, 1]))
def test_it_is_right_at_the_other_end_of_the_wire(
    keys: Credentials, fields: dict[str, str], body: bytes | None, serialize: int
) -> None:
    command = Command(310, ext=dict(fields), body=body, serialize=serialize)
    keys.sign(command)
    (received,) = FrameSplitter().feed(encode_command(command))
    assert is_signed_with(keys.secret_key, received)
    assert not is_signed_with(keys.secret_key + "x", received)


@given(KEYS, FIELDS, BODIES, NAMES, TEXT.filter(bool))
def test_a_field_more_shows(
    keys: Credentials, fields: dict[str, str], body: bytes | None, name: str, value: str
) -> None:
    command = Command(310, ext=dict(fields), body=body)
    keys.sign(command)
    assert command.ext is not None
    if name not in command.ext:
        command.ext[name] = value
        assert not is_signed_with(keys.secret_key, command)


SHORT = st.text("ab", max_size=3)
RESOURCES = st.one_of(
    st.just(Resource(Kind.ANY, None, Pattern.ANY)),
    st.builds(
        lambda kind, name, pattern: Resource(kind, None if pattern == Pattern.ANY else name, pattern),
        st.sampled_from([Kind.TOPIC, Kind.GROUP]),
        SHORT,
        st.sampled_from(list(Pattern)),
    ),
)
GIVEN_ACTIONS = st.lists(st.sampled_from([Action.ALL, Action.PUB, Action.SUB, Action.GET]), max_size=3)
ENTRIES = st.builds(
    PolicyEntry,
    RESOURCES,
    GIVEN_ACTIONS.map(lambda actions: list(map(int, actions))),
    st.none()
    | st.builds(Environment, st.lists(st.sampled_from(["10.0.0.1", "10.0.0.0/30", "0.0.0.0/0"]), max_size=2)),
    st.sampled_from([1, 2]),
)
POLICIES = st.lists(st.builds(Policy, st.sampled_from([1, 2]), st.lists(ENTRIES, max_size=5)), max_size=3)
ACCESSES = st.builds(
    Access,
    st.sampled_from([Kind.TOPIC, Kind.GROUP]),
    SHORT,
    st.frozensets(st.sampled_from([Action.PUB, Action.SUB, Action.GET]), min_size=1),
)


def model(policies: list[Policy], access: Access, source: str) -> Decision | None:
    """The rule as prose has it: by weights in place of an order."""
    for kind in (1, 2):
        best: tuple[int, int] | None = None
        decision = None
        for entry in (entry for policy in policies if policy.policy_type == kind for entry in policy.entries):
            resource = entry.resource
            name = resource.resource_name or ""
            if resource.resource_type == 1:
                weight = 0
            elif resource.resource_type != access.kind:
                continue
            elif resource.resource_pattern == 2:
                if name != access.name:
                    continue
                weight = 1000
            elif resource.resource_pattern == 3:
                if access.name[: len(name)] != name:
                    continue
                weight = 10 + len(name)
            else:
                weight = 5
            if not any(action == 1 or action in access.actions for action in entry.actions):
                continue
            ips = entry.environment.source_ips if entry.environment else []
            if ips and not any(
                source == ip or ("/" in ip and ipaddress.ip_address(source) in ipaddress.ip_network(ip))
                for ip in ips
            ):
                continue
            rank = (weight, int(entry.decision == 2))
            if best is None or rank > best:
                best, decision = rank, Decision(entry.decision)
        if decision is not None:
            return decision
    return None


@given(POLICIES, ACCESSES, st.sampled_from(["10.0.0.1", "10.0.0.2", "10.9.9.9"]))
@example(
    [
        Policy(
            1,
            [PolicyEntry(Resource(4, "", 3), [1], None, 1), PolicyEntry(Resource(4, None, 1), [1], None, 2)],
        )
    ],
    Access(Kind.TOPIC, "a", frozenset({Action.PUB})),
    "10.0.0.1",
)
def test_rules_decide_as_the_model_does(policies: list[Policy], access: Access, source: str) -> None:
    rules = Rules(Acl(User("ann"), policies))
    assert rules.decide(access, ipaddress.ip_address(source)) == model(policies, access, source)
