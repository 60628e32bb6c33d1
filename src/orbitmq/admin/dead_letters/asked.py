"""The request for a redrive, and the limits of such a request."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from typing import Any, get_args

from orbitmq.admin.dead_letters.dead_letter import Cause, DeadLetter, Place
from orbitmq.admin.dead_letters.outgoing import Edit
from orbitmq.admin.dead_letters.rules import MAX_REPLAYS, To
from orbitmq.protocol.errors import OrbitError

MAX_RATE = 10_000
MAX_PLACES = 1000
"""Dead letters that one run names singly."""


class BadRequest(OrbitError, ValueError):
    """A redrive that cannot be asked for."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A redrive as it is asked for: single dead letters, all of a cause, or all of the group without either.

    `rate` is in messages a second. Dead letters that were sent again `max_replays` times are left out, and so
    are those that an earlier run has sent, unless `again`. `edit` is for a single one. Of a cause or a group,
    dead letters that were stored after `until_ms` are left out: those that came since a preview, whose number
    the run keeps. Raises BadRequest.
    """

    places: tuple[Place, ...] = ()
    cause: Cause | None = None
    to: To = "origin"
    rate: float = 50.0
    max_replays: int = MAX_REPLAYS
    again: bool = False
    edit: Edit = field(default_factory=Edit)
    until_ms: int | None = None

    def __post_init__(self) -> None:
        if self.places and self.cause is not None:
            raise BadRequest("a redrive is of single dead letters or of a cause, not of both")
        if len(self.places) > MAX_PLACES:
            raise BadRequest(f"a redrive names {MAX_PLACES} dead letters at most; take a cause for more")
        if self.to not in get_args(To):
            raise BadRequest(f"a dead letter goes to origin or to retry, not to {self.to!r}")
        if not 0 < self.rate <= MAX_RATE:
            raise BadRequest(f"a rate is above 0 and at most {MAX_RATE} messages a second, not {self.rate:g}")
        if not 1 <= self.max_replays <= 1000:
            raise BadRequest(f"max_replays is from 1 to 1000, not {self.max_replays}")
        if self.edit != Edit() and len(self.places) != 1:
            raise BadRequest("an edit is of one dead letter: name its place")

    def wants(self, letter: DeadLetter) -> bool:
        is_new = self.until_ms is not None and letter.message.store_timestamp > self.until_ms
        return not is_new and (self.cause is None or letter.cause == self.cause)

    def as_json(self) -> dict[str, Any]:
        edit, cause = self.edit, self.cause
        return {
            "places": [[one.broker, one.queue_id, one.queue_offset] for one in self.places],
            "cause": None if cause is None else [cause.topic, cause.exception, cause.shape],
            "to": self.to,
            "rate": self.rate,
            "maxReplays": self.max_replays,
            "again": self.again,
            "untilMs": self.until_ms,
            "edit": {
                "body": None if edit.body is None else base64.b64encode(edit.body).decode(),
                "tags": edit.tags,
                "keys": edit.keys,
                "properties": None if edit.properties is None else dict(edit.properties),
            },
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Asked:
        edit, cause = value["edit"], value["cause"]
        return cls(
            tuple(Place(*one) for one in value["places"]),
            None if cause is None else Cause(*cause),
            value["to"],
            value["rate"],
            value["maxReplays"],
            value["again"],
            Edit(
                None if edit["body"] is None else base64.b64decode(edit["body"]),
                edit["tags"],
                edit["keys"],
                edit["properties"],
            ),
            value.get("untilMs"),  # journals of 0.2.0 lack it
        )


def edit_of(body: str | None, tags: str | None, keys: str | None, properties: dict[str, str] | None) -> Edit:
    """An edit whose body comes as base64. Raises BadRequest."""
    try:
        data = None if body is None else base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        raise BadRequest("the body of an edit has to be base64") from None
    return Edit(data, tags, keys, properties)
