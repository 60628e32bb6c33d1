"""Rules of one call: which messages the handler gets, and the result for all of them. Pure."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from orbitmq.client import HoldBack, ReceivedMessage, Reply, Retry
from orbitmq.idempotence.contract import Claim, State
from orbitmq.idempotence.errors import IdempotenceError, KeyConflict
from orbitmq.idempotence.keys import Entry

Messages = Sequence[ReceivedMessage[Any]]
AT_ONCE_MS = 1
"""Pause of messages that were held back only because others of their batch had to go first."""


@dataclass(slots=True)
class Delivery:
    """All messages of one call that share a key, and the first one's entry."""

    entry: Entry
    messages: list[ReceivedMessage[Any]]
    claim: Claim | None = None


@dataclass(slots=True)
class Call:
    """The messages of one call of a handler, with their keys."""

    deliveries: dict[str, Delivery] = field(default_factory=dict)
    """By id, in the order of the messages."""
    refused: list[tuple[ReceivedMessage[Any], IdempotenceError]] = field(default_factory=list)
    """Messages without a valid key, or in conflict with another one."""

    def add(self, message: ReceivedMessage[Any], entry: Entry) -> None:
        """Take a message of the call in; the same key twice is one delivery."""
        known = self.deliveries.get(entry.id)
        if known is None:
            self.deliveries[entry.id] = Delivery(entry, [message])
        elif known.entry.fingerprint == entry.fingerprint:
            known.messages.append(message)
        else:
            self.refused.append((message, _conflict(entry, known.entry.message_id, known.entry.fingerprint)))

    @property
    def entries(self) -> list[Entry]:
        """The entries to claim."""
        return [one.entry for one in self.deliveries.values()]

    def answer(self, claims: Sequence[Claim]) -> None:
        """Note the answers of the store to the claims of `entries`."""
        for delivery, claim in zip(self.deliveries.values(), claims, strict=True):
            delivery.claim = claim
            entry = delivery.entry
            compared = (entry.fingerprint, claim.fingerprint)
            if claim.state is State.DONE and "" not in compared and compared[0] != compared[1]:
                error = _conflict(entry, claim.message_id, claim.fingerprint)
                self.refused += [(message, error) for message in delivery.messages]

    def of(self, state: State) -> list[Delivery]:
        """The deliveries in one state."""
        return [one for one in self.deliveries.values() if one.claim is not None and one.claim.state is state]

    def released_by(self, outcome: object) -> list[Entry]:
        """The claimed entries that a result of the handler has come again."""
        claimed = self.of(State.CLAIMED)
        if not isinstance(outcome, Retry):
            return []
        if outcome.messages is None:
            return [one.entry for one in claimed]
        named = set(outcome.messages)
        if isinstance(outcome, HoldBack) and isinstance(outcome.others, Retry):
            rest = outcome.others.messages
            named.update(rest if rest is not None else [one.messages[0] for one in claimed])
        return [one.entry for one in claimed if one.messages[0] in named]


def _conflict(entry: Entry, other_message_id: str, other_fingerprint: str) -> KeyConflict:
    return KeyConflict(entry.key, entry.message_id, entry.fingerprint, other_message_id, other_fingerprint)


def refusal(call: Call, messages: Messages) -> Retry:
    """The result of a call with refused messages: they are given up, the others come again at once."""
    refused = {message for message, _ in call.refused}
    error = call.refused[0][1]
    given_up = Retry(-1, messages=[message for message in messages if message in refused])
    given_up.__cause__ = error
    others = [message for message in messages if message not in refused]
    if not others:
        return given_up
    outcome = HoldBack(AT_ONCE_MS, messages=others, others=given_up)
    outcome.__cause__ = error
    return outcome


def batch_outcome(call: Call, outcome: Retry | None, pause_ms: float) -> Retry | None:
    """The result of a batch: the handler's for the messages that it got, and for those of the same keys."""
    result = _for_all(call, outcome)
    busy = [message for one in call.of(State.IN_FLIGHT) for message in one.messages]
    if not busy:
        return result
    if isinstance(result, HoldBack):
        held = [*busy, *(result.messages or ())]
        combined = HoldBack(max(pause_ms, result.pause_ms), messages=held, others=result.others)
    else:
        combined = HoldBack(pause_ms, messages=busy, others=result)
    combined.__cause__ = None if result is None else result.__cause__
    return combined


def _for_all(call: Call, outcome: Retry | None) -> Retry | None:
    """The handler's result, with names of all messages that it is for."""
    if outcome is None:
        return None
    everyone = [one.messages[0] for one in call.of(State.CLAIMED)]
    twins = {one.messages[0]: one.messages for one in call.of(State.CLAIMED)}

    def named(messages: Messages | None) -> list[ReceivedMessage[Any]]:
        return [twin for message in (everyone if messages is None else messages) for twin in twins[message]]

    if isinstance(outcome, HoldBack):
        others = outcome.others
        if isinstance(others, Retry):
            rest = named(others.messages) if others.messages is not None else None
            others = Retry(others.delay_level, messages=rest)
            if rest is None:
                held = set(outcome.messages or ())
                left = [one for one in everyone if one not in held]
                others = Retry(others.delay_level, messages=named(left))
        result: Retry = HoldBack(outcome.pause_ms, messages=named(outcome.messages), others=others)
    else:
        result = Retry(outcome.delay_level, messages=named(outcome.messages))
    result.__cause__ = outcome.__cause__
    return result


def encoded_result(outcome: object) -> str:
    """The result of a handler as stores keep it; empty for None and True."""
    if not isinstance(outcome, Reply):
        return ""
    body = base64.b64encode(bytes(outcome.body)).decode()
    return json.dumps({"body": body, "properties": dict(outcome.properties)})


def decoded_result(kept: str | None) -> Reply | None:
    """The result again. Raises IdempotenceError for what is none: another program wrote it."""
    if not kept:
        return None
    try:
        read = json.loads(kept)
        return Reply(base64.b64decode(read["body"], validate=True), read["properties"])
    except (ValueError, KeyError, TypeError, binascii.Error) as error:
        raise IdempotenceError(
            f"the kept result of {len(kept)} characters is none of a handler: {error}"
        ) from error
