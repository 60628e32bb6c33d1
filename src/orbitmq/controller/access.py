"""The gate in front of a controller's requests: brokers and operators sign them, and may do different things.

A controller keeps no users of its own. Its options name two: that of all brokers, and a super user.
"""

from __future__ import annotations

from orbitmq.handling.call import Peer
from orbitmq.handling.credentials import CredentialTexts, first_user, own_credentials
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.remoting.signing import ACCESS_KEY, is_signed_with
from orbitmq.protocol.requests.controller import (
    ControllerAlterSyncStateSet,
    ControllerApplyBrokerId,
    ControllerElectMaster,
    ControllerGetMetadataInfo,
    ControllerGetNextBrokerId,
    ControllerGetReplicaInfo,
    ControllerGetSyncStateData,
    ControllerRegisterBroker,
)
from orbitmq.protocol.requests.ha import BrokerHeartbeat

BROKER_REQUESTS = frozenset(
    kind.CODE
    for kind in (
        BrokerHeartbeat,
        ControllerAlterSyncStateSet,
        ControllerApplyBrokerId,
        ControllerGetMetadataInfo,
        ControllerGetNextBrokerId,
        ControllerGetReplicaInfo,
        ControllerGetSyncStateData,
        ControllerRegisterBroker,
    )
)
"""Requests that brokers may send, besides asking for an election without naming the winner."""


class ControllerGate:
    """Checks requests by the users that the options name."""

    changes = 0
    """Users do not change while a controller runs."""

    def __init__(self, settings: CredentialTexts) -> None:
        operator, brokers = first_user(settings), own_credentials(settings)
        self._operator = None if operator is None else operator.access_key
        self._secrets = {one.access_key: one.secret_key for one in (operator, brokers) if one is not None}

    def refusal(self, command: Command, peer: Peer, now: int) -> str | None:
        """The reason why a request may not be served, or None."""
        fields = command.ext or {}
        name = fields.get(ACCESS_KEY)
        if not name:
            return "username cannot be null."
        secret = self._secrets.get(name)
        if secret is None:
            return f"User:{name} is not found."
        if not is_signed_with(secret, command):
            return "check signature failed."
        if name == self._operator or command.code in BROKER_REQUESTS:
            return None
        if command.code == ControllerElectMaster.CODE and _is_a_brokers(fields):
            return None
        return f"User:{name} is the user of brokers: only the user of initAuthenticationUser may do this."

    def admitted_bytes(self, data: bytes, peer: Peer, now: int) -> int:
        """No request passes unread."""
        return 0

    def withdrawal(self, command: Command, peer: Peer) -> str | None:
        """Rights are not withdrawn while a controller runs."""
        return None


def _is_a_brokers(fields: dict[str, str]) -> bool:
    """True for the election that a broker asks for: it names itself, and does not insist."""
    broker_id = fields.get("brokerId", "")
    return fields.get("designateElect") == "false" and broker_id.isascii() and broker_id.isdigit()
