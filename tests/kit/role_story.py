"""A broker's role told as a story: what happens to it, and the steps that its rules ask for.

A story is a text file. A line is an event or an expectation; `#` begins a comment.

    after 500 ms                            time passes
    the log ends at 1000, confirmed 900     this broker's log
    a heartbeat is answered                 and renews the lease
    the controller does not know it         it has refused a request for that reason
    2 is master in epoch 3 [, set 7 of 1,2] [, others may answer for 4000 ms]
    it may go on blind                      enableBlindMaster is set
    it followed 2 in epoch 3                its file says so; then: no controller answers
    2 is in epoch 3, and can [not] be left to it
    logs part at 800                        this slave's and its master's
    2 is linked at 1000, 2 is gone          a slave's connection to this master
    the set is asked for, is asked about    the controller is asked; the line says with which outcome
    -> become master in epoch 3             the next step, which succeeds; with `(fails)` it does not
    = master in epoch 3                     the role; `= answers`, `= no answers`, `= waits for 2,3`
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from orbitmq.broker.metadata.identity import BrokerIdentity
from orbitmq.broker.options import BrokerSettings
from orbitmq.broker.role.epochs import Epochs
from orbitmq.broker.role.in_sync import InSyncSet
from orbitmq.broker.role.links import Links, SlaveLink
from orbitmq.broker.role.machine import (
    AskLater,
    Beat,
    ChangeRole,
    Cut,
    Elected,
    FindLog,
    GoBlind,
    RoleMachine,
    Run,
    See,
    Step,
)
from orbitmq.broker.role.promise import Promise
from orbitmq.broker.role.role import Role, RoleChange
from orbitmq.broker.role.state import RoleState
from orbitmq.broker.role.steps import ChangeStep, beginning, leaving
from orbitmq.protocol.bodies.ha import SyncStateSet
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.epoch_replication import Epoch
from orbitmq.protocol.requests.controller import ReplicaInfoReply, SyncStateSetReply

TIMEOUT_MS = 10_000
PORT, HA_PORT = ":10911", ":10912"


def address_of(broker_id: int) -> str:
    """Where a broker of a story is."""
    return f"host-{broker_id}{PORT}"


def ha_address_of(broker_id: int) -> str:
    """Where its log is."""
    return f"host-{broker_id}{HA_PORT}"


class StoryLog:
    """A log that is only as long as it is."""

    def __init__(self) -> None:
        self.max_physical = self.durable_offset = 0
        self.confirmed: int | None = None

    @property
    def confirm_offset(self) -> int:
        return self.max_physical if self.confirmed is None else min(self.confirmed, self.max_physical)


class RoleStory:
    """One broker in controller mode, whose steps are carried out as the server does."""

    def __init__(self, own_id: int = 1, run: Run | None = None) -> None:
        self.settings = BrokerSettings(
            enable_controller_mode=True,
            controller_addr="127.0.0.1:1",
            broker_role="SLAVE",
            broker_id=own_id,
            all_ack_in_sync_state_set=True,
            controller_heart_beat_timeout_mills=TIMEOUT_MS,
        )
        self.now = 1_000_000
        self.log = StoryLog()
        self.takes_messages = False
        self.epochs = Epochs()
        self.links = Links()
        self.role = RoleState(self.settings, own_id)
        self.role.await_controller()
        self.promise = Promise(self.settings, self.log, self.links, self.role)
        self.in_sync: InSyncSet = self.promise.in_sync  # type: ignore[assignment]
        identity = BrokerIdentity("C", "broker-a", own_id, address_of(own_id), ha_address_of(own_id), b"")
        self.machine = RoleMachine(
            self.settings, identity, self.log, self.role, self.in_sync, self.epochs, self.links, own_id, run
        )
        self.machine.registered()

    # What the server does.

    def change_role(self, change: RoleChange, fails_at: ChangeStep | None = None) -> None:
        """Carries a change out, as the server does; one that fails leaves the broker without a role."""
        for step in leaving(self.role.current, change):
            self._change_step(step, change)
        self.role.begin_epoch(change.epoch)
        for step in beginning(change, has_controller=True):
            if step is fails_at:
                self.role.fence()
                self.machine.failed()
                return
            self._change_step(step, change)
        self.machine.role_taken(change)

    def _change_step(self, step: ChangeStep, change: RoleChange) -> None:
        match step:
            case ChangeStep.FENCE:
                self.role.fence()
            case ChangeStep.END_WAITING:
                if self.takes_messages:
                    self.role.hold_readers(self.log.confirm_offset)
                self.takes_messages = False
            case ChangeStep.STOP_SOCKETS:
                self.links.all.clear()
            case ChangeStep.FORGET_MASTER:
                self.role.forget_master()
            case ChangeStep.BEGIN_EPOCH:
                if change.epoch > self.epochs.last:
                    self.epochs.append(Epoch(change.epoch, self.log.max_physical))
            case ChangeStep.NOTE_ROLE:
                self.settings.broker_role = change.broker_role
            case ChangeStep.CONFIRM_ALL:
                self.role.release_readers()
                self.log.confirmed = None
            case ChangeStep.TAKE_MESSAGES:
                self.takes_messages = True
            case ChangeStep.LEAD:
                self.role.lead()
            case ChangeStep.FOLLOW:
                self.role.follow(change)
            case _:
                pass

    def beat(self) -> None:
        """Sends a heartbeat that is answered at once."""
        self.machine.beat_answered(self.now, self.now)

    def carry_out(self, step: Step, detail: str = "") -> None:
        """Carries a step out with success."""
        match step:
            case ChangeRole(change):
                self.change_role(change)
            case Cut(offset):
                self.log.max_physical = offset
                self.epochs.truncate(offset)
                self.role.note_cut(offset)
                self.machine.log_cut()
            case Beat(tells):
                self.beat()
                if tells:
                    self.machine.told()
            case FindLog(address):
                self.machine.log_found("" if detail == "no role yet" else address.replace(PORT, HA_PORT))
            case GoBlind():
                self.role.go_blind(self.now)
                self.machine.went_blind()
            case See():
                self.role.see()
            case AskLater():
                pass

    # The telling.

    def play(self, text: str) -> None:
        """Plays all lines. Raises AssertionError with the line that does not hold."""
        for number, line in enumerate(text.splitlines(), 1):
            said = line.partition("#")[0].strip()
            if said:
                try:
                    self._line(said)
                except AssertionError as error:
                    raise AssertionError(f"line {number}, {said!r}: {error}") from None

    def _line(self, said: str) -> None:
        if said.startswith("->"):
            self._expect_step(said[2:].strip())
            return
        if said.startswith("="):
            self._expect(said[1:].strip())
            return
        for pattern, handle in _EVENTS:
            match = re.fullmatch(pattern, said)
            if match:
                handle(self, *match.groups())
                return
        raise AssertionError("no such event")

    def _expect_step(self, said: str) -> None:
        wanted, _, detail = said.partition(": ")
        fails = wanted.endswith(" (fails)")
        step = self.machine.next_step(self.now)
        assert told(step) == wanted.removesuffix(" (fails)"), f"the step is: {told(step)}"
        if fails and isinstance(step, ChangeRole):
            first, *_ = beginning(step.change, has_controller=True)
            self.change_role(step.change, fails_at=first)
        elif fails:
            self.machine.failed()
        elif step is not None:
            self.carry_out(step, detail)

    def _expect(self, said: str) -> None:
        if said in ("answers", "no answers"):
            assert self.machine.may_answer(self.now) == (said == "answers")
            return
        if said in ("stores", "stores nothing"):
            assert self.promise.lacks_replicas == (said == "stores nothing")
            return
        if said in ("blind", "not blind"):
            assert (self.role.blind_since is not None) == (said == "blind")
            return
        if said in ("registered", "not registered"):
            assert self.machine.is_registered == (said == "registered")
            return
        if said.startswith("waits for"):
            others = ",".join(map(str, sorted(self.in_sync.others))) or "nobody"
            assert f"waits for {others}" == said, f"it waits for {others}"
            return
        if said.startswith("readers see"):
            seen = self.promise.replicated
            assert f"readers see {'all' if seen is None else seen}" == said, f"they see {seen}"
            return
        role = f"{self.role.current.value} in epoch {self.role.epoch}"
        assert role == said, f"it is {role}"


def told(step: Step | None) -> str:
    """A step in the words of stories."""
    match step:
        case None:
            return "nothing"
        case ChangeRole(change) if change.role is Role.SLAVE:
            return f"follow {change.master_address.removesuffix(PORT)} in epoch {change.epoch}"
        case ChangeRole(change) if change.role is Role.MASTER:
            return f"become master in epoch {change.epoch}"
        case ChangeRole():
            return "give up the role"
        case Cut(offset):
            return f"cut the log to {offset}"
        case Beat(tells):
            return "tell the controller" if tells else "renew the lease"
        case FindLog(address):
            return f"ask {address.removesuffix(PORT)} for its log"
        case AskLater(ms):
            return f"ask again in {ms} ms"
        case GoBlind():
            return "go on blind"
        case See():
            return "see again"


def _ids(text: str | None) -> frozenset[int]:
    return frozenset(map(int, text.split(","))) if text else frozenset()


def _heard(
    story: RoleStory, master: str, epoch: str, set_epoch: str, ids: str, wait: str, unclean: str | None
) -> None:
    elected = Elected(
        int(master),
        address_of(int(master)),
        int(epoch),
        _ids(ids),
        int(set_epoch or 0),
        int(wait or 0),
        only_in_sync=unclean is None,
    )
    story.machine.heard(elected)


def _followed(story: RoleStory, master: str, epoch: str) -> None:
    story.machine.remembered = Elected.followed(address_of(int(master)), int(epoch))


def _linked(story: RoleStory, slave: str, offset: str) -> None:
    link = next((one for one in story.links.all if one.broker_id == int(slave)), None)
    if link is None:
        link = SlaveLink(f"s-{slave}", story.now)
        link.broker_id = int(slave)
        story.links.add(link)
    link.acknowledged, link.caught_up_ms = int(offset), story.now


def _gone(story: RoleStory, slave: str) -> None:
    story.links.all[:] = [one for one in story.links.all if one.broker_id != int(slave)]


def _set_asked_for(story: RoleStory, again: str | None, outcome: str, set_epoch: str, ids: str) -> None:
    if again is None:
        assert story.machine.is_set_due(story.now)
        assert story.machine.set_question() is None, "a change is open: it asks what became of it"
    request = story.machine.set_change(story.now)
    wanted = ",".join(map(str, sorted(request.body.sync_state_set))) if request and request.body else "none"
    assert wanted == ids, f"it asks for {wanted}"
    if outcome == "and given":
        reply = SyncStateSetReply(int(set_epoch), SyncStateSet(set(_ids(ids)), int(set_epoch)))
        assert story.machine.set_changed(reply)


def _set_asked_about(story: RoleStory, master: str, epoch: str, set_epoch: str, ids: str) -> None:
    assert story.machine.is_set_due(story.now)
    assert story.machine.set_question() is not None, "no change is open"
    body = SyncStateSet(set(_ids(ids)), int(set_epoch))
    info = ReplicaInfoReply(master_broker_id=int(master), master_epoch=int(epoch), body=body)
    story.machine.set_heard(info)


def _pass_time(story: RoleStory, ms: str) -> None:
    story.now += int(ms)


def _log_ends(story: RoleStory, end: str, confirmed: str | None) -> None:
    story.log.max_physical = int(end)
    story.log.confirmed = None if confirmed is None else int(confirmed)


def _member_tells(story: RoleStory, member: str, epoch: str, cannot: str | None) -> None:
    story.role.note_epoch(int(epoch))
    story.role.note_member(int(member), is_able=cannot is None)


_EVENTS: list[tuple[str, Callable[..., Any]]] = [
    (r"after (\d+) ms", _pass_time),
    (r"the log ends at (\d+)(?:, confirmed (\d+))?", _log_ends),
    (r"a heartbeat is answered", RoleStory.beat),
    (r"it may go on blind", lambda story: setattr(story.settings, "enable_blind_master", True)),
    (
        r"(\d+) is in epoch (\d+), and can( not)? be left to it",
        _member_tells,
    ),
    (r"it followed (\d+) in epoch (\d+)", _followed),
    (r"no controller answers", lambda story: story.machine.nobody_answers()),
    (r"a notice tells of epoch (\d+)", lambda story, epoch: story.role.note_epoch(int(epoch))),
    (r"a controller refuses with (\d+)", lambda story, code: story.machine.refused(int(code))),
    (r"the group has no master", lambda story: story.machine.contradicted()),
    (
        r"the controller does not know it",
        lambda story: story.machine.refused(ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED),
    ),
    (
        r"it registers",
        lambda story: (story.machine.registration(story.machine.broker_id), story.machine.registered()),
    ),
    (
        r"(\d+) is master in epoch (\d+)(?:, set (\d+) of ([\d,]+))?(?:, others may answer for (\d+) ms)?"
        r"(, others than these may be elected)?",
        _heard,
    ),
    (r"logs part at (\d+)", lambda story, offset: story.machine.diverged(int(offset))),
    (r"(\d+) is linked at (\d+)", _linked),
    (r"(\d+) is gone", _gone),
    (
        r"the set is asked for( again)? (and given|without an answer): (?:(\d+) of )?([\d,]+|none)",
        _set_asked_for,
    ),
    (r"the set is asked about: (\d+) in epoch (\d+), set (\d+) of ([\d,]+)", _set_asked_about),
    (
        r"the lease is looked at: (over|holds|it goes on blind)",
        lambda story, state: _look_at_lease(story, state),
    ),
]


def _look_at_lease(story: RoleStory, state: str) -> None:
    step = story.machine.lease_step(story.now)
    found = "holds" if step is None else "it goes on blind" if isinstance(step, GoBlind) else "over"
    assert found == state, f"the lease: {found}"
    if step is not None:
        story.carry_out(step)
