"""Dead letters: by group and cause, looked at, edited, and sent again with an audit trail."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Annotated, Literal

import msgspec

from orbitmq.admin.dead_letters.asked import MAX_PLACES, MAX_RATE, Asked, edit_of
from orbitmq.admin.dead_letters.clusters import Clusters, DeadLetterCluster
from orbitmq.admin.dead_letters.counting import DeadLetters
from orbitmq.admin.dead_letters.dead_letter import Cause, DeadLetter, Place
from orbitmq.admin.dead_letters.journal import Entry, Run
from orbitmq.admin.dead_letters.planning import FilterEffect
from orbitmq.admin.dead_letters.reading import letters_at, scan
from orbitmq.admin.dead_letters.rules import own_properties
from orbitmq.console.api.endpoint import Call, endpoint
from orbitmq.console.api.looking import EVENT_SECONDS
from orbitmq.console.api.messages import SHOWN_BYTES, FoundMessage, found_messages
from orbitmq.console.api.problems import Invalid
from orbitmq.console.masking import Masks
from orbitmq.console.security.roles import Role

MOST_SHOWN = 50


class DeadLetterGroups(msgspec.Struct, rename="camel"):
    """Groups with dead letters, of the last look at the cluster."""

    at_ms: int
    groups: list[DeadLetters]
    errors: list[str]


class DeadLetterPlace(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The place of a dead letter in its dead-letter topic."""

    broker: str
    queue_id: Annotated[int, msgspec.Meta(ge=0)]
    queue_offset: Annotated[int, msgspec.Meta(ge=0)]


class DeadLetterCause(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """A topic, and an exception or else a shape of bodies. `topic` is null where nothing says it."""

    topic: str | None = None
    exception: str | None = None
    shape: str | None = None


class Clustering(msgspec.Struct, rename="camel"):
    """Clusters of the dead letters that were read so far; the last event is `done`."""

    scanned: int
    total: int
    done: bool
    beyond: int
    """Dead letters of further causes, which are not told apart."""
    clusters: list[DeadLetterCluster]


class PlacesQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Dead letters to look at: `BROKER/QUEUE/OFFSET`, repeated."""

    place: list[str]


class ShownDeadLetter(msgspec.Struct, rename="camel"):
    """One dead letter."""

    place: Place
    cause: Cause
    reason: str
    replays: int
    own: dict[str, str]
    """The properties of the user's own: those that an edit replaces."""
    message: FoundMessage


class ShownDeadLetters(msgspec.Struct, rename="camel"):
    """The dead letters that are there."""

    letters: list[ShownDeadLetter]


class DeadLetterEdit(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Changes of a dead letter; what is null stays as it is."""

    body: str | None = None
    """Base64."""
    tags: str | None = None
    keys: str | None = None
    properties: dict[str, str] | None = None


class RedriveRequest(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Dead letters to send again: at some places, of a cause, or all of the group without either."""

    places: Annotated[list[DeadLetterPlace], msgspec.Meta(max_length=MAX_PLACES)] = []
    cause: DeadLetterCause | None = None
    to: Literal["origin", "retry"] = "origin"
    """The first topic, or the retry topic of the group: no other group gets it then."""
    rate: Annotated[float, msgspec.Meta(gt=0, le=MAX_RATE)] = 50.0
    """Dead letters a second."""
    max_replays: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 3
    """Dead letters that were sent again so often stay."""
    again: bool = False
    """Also dead letters that were sent before."""
    edit: DeadLetterEdit | None = None
    """Of a single dead letter."""
    until_ms: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """Dead letters that were stored later are left out: `newestMs` of a preview."""

    def asked(self) -> Asked:
        """For the library. Raises BadRequest."""
        cause, edit = self.cause, self.edit or DeadLetterEdit()
        return Asked(
            tuple(Place(one.broker, one.queue_id, one.queue_offset) for one in self.places),
            None if cause is None else Cause(cause.topic, cause.exception, cause.shape),
            self.to,
            self.rate,
            self.max_replays,
            self.again,
            edit_of(edit.body, edit.tags, edit.keys, edit.properties),
            self.until_ms,
        )


class RedrivePreview(msgspec.Struct, rename="camel"):
    """The effect that a redrive would have."""

    selected: int
    newest_ms: int | None
    """Store time of the newest of them; null without any."""
    would_send: int
    skipped: dict[str, int]
    """Dead letters that stay, by reason."""
    topics: dict[str, int]
    """Dead letters that would be sent, by the topic that would be written."""
    filters: list[FilterEffect]


class RedriveRuns(msgspec.Struct, rename="camel"):
    """Newest first."""

    runs: list[Run]


class EntriesQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Dead letters of a run, of one state or of all."""

    state: str | None = None
    max: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100
    skip: Annotated[int, msgspec.Meta(ge=0)] = 0


class RunDetail(msgspec.Struct, rename="camel"):
    """A run with dead letters of it."""

    run: Run
    letters: list[Entry]


@endpoint("GET", "/api/clusters/{cluster}/dead-letters", Role.VIEWER, rows=("groups",))
async def list_letter_groups(call: Call[None, None]) -> DeadLetterGroups:
    """Groups with dead letters, of the last look at the cluster."""
    sample = await call.cluster.sampler.first()
    return DeadLetterGroups(sample.at_ms, sample.dead_letters, sample.errors)


@endpoint("GET", "/api/clusters/{cluster}/dead-letters/{group}/clusters", Role.VIEWER)
async def cluster_letters(call: Call[None, None]) -> AsyncIterator[Clustering]:
    """Clusters of a group's dead letters as server-sent events, while all are read; closing it ends that."""
    clusters, scanned, total, last_event = Clusters(), 0, 0, time.monotonic()
    async for page in scan(call.cluster.admin, call.path["group"]):
        for letter in page.letters:
            clusters.add(letter)
        scanned, total = page.scanned, page.total
        if time.monotonic() - last_event >= EVENT_SECONDS:
            last_event = time.monotonic()
            yield _clustering(clusters, scanned, total, done=False)
    yield _clustering(clusters, scanned, total, done=True)


@endpoint("GET", "/api/clusters/{cluster}/dead-letters/{group}/letters", Role.VIEWER, rows=("letters",))
async def get_letters(call: Call[PlacesQuery, None]) -> ShownDeadLetters:
    """Dead letters at some places; one alone has its whole body."""
    places = [_place(text) for text in call.query.place]
    if len(places) > MOST_SHOWN:
        raise Invalid(f"{MOST_SHOWN} dead letters at most", "Ask several times.", field="place")
    found = await letters_at(call.cluster.admin, call.path["group"], places)
    most = None if len(places) == 1 else SHOWN_BYTES
    letters = [found[place] for place in places if place in found]
    messages = await found_messages(call, [(one.place.broker, one.message) for one in letters], most)
    masks = call.console.masks
    return ShownDeadLetters([_shown(*pair, masks) for pair in zip(letters, messages, strict=True)])


@endpoint("POST", "/api/clusters/{cluster}/dead-letters/{group}/redrive-preview", Role.OPERATOR)
async def try_redrive(call: Call[None, RedriveRequest]) -> RedrivePreview:
    """The effect that a redrive would have, also at the filter of the group; nothing is sent."""
    cluster, group = call.cluster.name, call.path["group"]
    call.after = _noted(call.body)
    found = await call.console.redrives.preview(cluster, group, call.body.asked())
    return RedrivePreview(
        found.selected,
        found.newest_ms,
        found.would_send,
        dict(found.skipped.most_common(20)),
        dict(found.topics.most_common(50)),
        list(found.filters.values()),
    )


@endpoint("POST", "/api/clusters/{cluster}/dead-letters/{group}/redrive", Role.OPERATOR)
async def redrive_letters(call: Call[None, RedriveRequest]) -> Run:
    """Send dead letters again, once each. It continues after the console was stopped or killed."""
    redrives, cluster, group = call.console.redrives, call.cluster.name, call.path["group"]
    call.after = _noted(call.body)
    asked = call.body.asked()
    if call.body.edit is not None:
        await redrives.preview(cluster, group, asked)  # an edit that no message can have is refused now
    run = await redrives.begin(cluster, group, asked, call.who.user if call.who else "")
    call.after["run"] = run.id
    return run


@endpoint("GET", "/api/clusters/{cluster}/redrives", Role.VIEWER, rows=("runs",))
async def list_redrives(call: Call[None, None]) -> RedriveRuns:
    """The last hundred redrives of a cluster."""
    return RedriveRuns(await call.console.redrives.runs(call.cluster.name))


@endpoint("GET", "/api/clusters/{cluster}/redrives/{run}", Role.VIEWER, rows=("letters",))
async def get_redrive(call: Call[EntriesQuery, None]) -> RunDetail:
    """One redrive and its dead letters: the audit trail."""
    redrives, query = call.console.redrives, call.query
    run = await redrives.run(call.cluster.name, call.path["run"])
    return RunDetail(run, await redrives.entries(run.id, query.state, query.max, query.skip))


@endpoint("POST", "/api/clusters/{cluster}/redrives/{run}/stop", Role.OPERATOR)
async def stop_redrive(call: Call[None, None]) -> Run:
    """End a redrive after the dead letters that are under way."""
    run = await call.console.redrives.stop(call.cluster.name, call.path["run"])
    call.after = run.counts
    return run


def _noted(body: RedriveRequest) -> dict[str, object]:
    """The request for the audit log: of an edited body only the size."""
    noted: dict[str, object] = msgspec.to_builtins(body)
    edit = noted.get("edit")
    if isinstance(edit, dict) and isinstance(edit.get("body"), str):
        edit["body"] = f"{len(edit['body']) * 3 // 4} bytes"
    if len(body.places) > 20:
        noted["places"] = f"{len(body.places)} dead letters"
    return noted


def _place(text: str) -> Place:
    broker, queue_id, offset = (*text.rsplit("/", 2), "", "")[:3]
    if not broker or not queue_id.isdecimal() or not offset.isdecimal() or len(offset) > 18:
        raise Invalid("a place is BROKER/QUEUE/OFFSET", "Take it from a list.", field="place")
    if int(queue_id) >= 2**31:
        raise Invalid("a queue has a number of 31 bits", "Take it from a list.", field="place")
    return Place(broker, int(queue_id), int(offset))


def _clustering(clusters: Clusters, scanned: int, total: int, *, done: bool) -> Clustering:
    return Clustering(scanned, total, done, clusters.beyond, clusters.listed())


def _shown(letter: DeadLetter, message: FoundMessage, masks: Masks) -> ShownDeadLetter:
    return ShownDeadLetter(
        letter.place,
        letter.cause,
        letter.reason,
        letter.replays,
        masks.properties(own_properties(letter.message.property_map())),
        message,
    )
