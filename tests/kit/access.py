"""Gates and requests for the tests of access control."""

from __future__ import annotations

from typing import Any

from orbitmq.broker.auth.gate import Gate
from orbitmq.broker.auth.options import AuthSettings
from orbitmq.broker.auth.policies import Action, Decision, PolicyType, by_name, parse_resource
from orbitmq.broker.auth.table import AuthTable
from orbitmq.handling.call import Peer
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.options import Layer, OptionTable
from orbitmq.protocol.bodies.auth import Environment, Policy, PolicyEntry, User
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.remoting.signing import Credentials
from orbitmq.protocol.schema.declare import Request

NOW = 1_795_000_000_000
ROOT = Credentials("root", "root-secret")
ANN = Credentials("ann", "ann-secret")
TABLE = OptionTable(AuthSettings)


def entry(resource: str, actions: str = "All", decision: str = "Allow", *source_ips: str) -> PolicyEntry:
    """A stored entry, as the handlers make it."""
    found = [by_name(Action, name) for name in actions.split("|")]
    return PolicyEntry(
        parse_resource(resource),
        [int(action) for action in found if action is not None],
        Environment(list(source_ips)) if source_ips else None,
        by_name(Decision, decision),
    )


def table(*entries: PolicyEntry, default: tuple[PolicyEntry, ...] = ()) -> AuthTable:
    """The super user root, and the user ann with these rules."""
    made = AuthTable(DirtyTables())
    made.ensure_super_user(ROOT.access_key, ROOT.secret_key)
    made.put_user(User(ANN.access_key, ANN.secret_key, user_type=2, user_status=1))
    if entries or default:
        made.merge_acl(
            ANN.access_key,
            [Policy(PolicyType.CUSTOM, list(entries)), Policy(PolicyType.DEFAULT, list(default))],
        )
    return made


def gate(of: AuthTable, **properties: object) -> Gate:
    """A gate that checks both things unless `properties` say otherwise."""
    values = {"authenticationEnabled": True, "authorizationEnabled": True, **properties}
    return Gate(TABLE.load([Layer("the test", values)]), of, "DefaultCluster")


def peer(host: str = "10.0.0.9", connection_id: int = 1) -> Peer:
    packed = bytes(map(int, host.split("."))) + (4000).to_bytes(4, "big")
    return Peer(connection_id, packed, f"{host}:4000", 493)


def signed(request: Request[Any], who: Credentials = ANN) -> Command:
    """The command of a request, signed."""
    command = request.to_command(1)
    who.sign(command)
    return command
