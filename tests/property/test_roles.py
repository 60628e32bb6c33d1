"""Brokers and a controller by their real rules, at random: one master, and nothing acknowledged is lost.

Only network and disk are the test's: heartbeats that are not sent, requests and answers that are lost, steps
that are left undone for a while, processes that end, operators who elect and remove.
"""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from orbitmq.broker.role.machine import AskLater, Beat, ChangeRole, Elected, FindLog, Run
from orbitmq.broker.role.role import Role
from orbitmq.broker.role.steps import ChangeStep
from orbitmq.controller.group import BrokerGroup
from orbitmq.protocol.epoch_replication import Epoch
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.controller import (
    CleanBrokerData,
    ControllerApplyBrokerId,
    ControllerElectMaster,
    ControllerGetReplicaInfo,
)
from orbitmq.protocol.schema.declare import Request
from tests.kit.controller_story import TIMEOUT_MS, ControllerStory
from tests.kit.role_story import RoleStory, address_of, ha_address_of

MEMBERS = 3
INDEX = st.integers(0, MEMBERS - 1)
RECORD = 100
MANY_STEPS = 20
CASES = ("alone", "elected", "beside its master", "out of the set")
"""A slave without the end of its log is back."""


class Member(RoleStory):
    """A broker and its disk. `records` are (epoch, number), each of `RECORD` bytes."""

    def __init__(
        self, controller: ControllerStory, own_id: int, timeout_ms: int, *, may_be_blind: bool
    ) -> None:
        self.controller = controller
        self.may_be_blind = may_be_blind
        self.id = own_id
        self.timeout_ms = timeout_ms
        self.records: list[tuple[int, int]] = []
        self.connection = 100 + own_id
        self.last_beat: tuple[Any, int] | None = None
        self.runs = 0
        self.may_lack = False
        """Its power was cut, and no controller has heard of that."""
        self._begin(())
        application = ControllerApplyBrokerId("C", "broker-a", own_id, f"{address_of(own_id)};1")
        controller.ask(application)

    def _begin(self, epochs: tuple[Epoch, ...] | list[Epoch]) -> None:
        last, self.runs = self.runs, self.runs + 1
        before = str(last) if last and not self.may_lack else None
        super().__init__(self.id, Run(str(self.runs), before) if self.may_be_blind else None)
        self.settings.controller_heart_beat_timeout_mills = self.timeout_ms
        self.settings.enable_blind_master = self.may_be_blind
        self.machine.is_registered = False
        for epoch in epochs:
            self.epochs.append(epoch)
        self.log.max_physical = RECORD * len(self.records)
        self.log.confirmed, self.takes_messages = 0, False
        self.now = self.controller.now

    def restart(self) -> None:
        """Its process ends, and another one begins on its folder."""
        self.controller.disconnect(self.connection)
        self.connection += 1000
        followed = self.machine.remembered
        self._begin(list(self.epochs.entries))
        self.machine.remembered = followed

    def lose_power(self, records: int) -> None:
        """Its process ends, the end of its log is lost, and nobody is told."""
        self.may_lack = True
        self.records = self.records[: max(0, len(self.records) - records)]
        self.epochs.truncate(RECORD * len(self.records) + 1)
        followed = self.machine.remembered
        self._begin(list(self.epochs.entries))
        self.machine.remembered = followed

    def ask(self, request: Request[Any]) -> Any:
        """An answer of the controller; None where it refuses."""
        self.now = self.controller.now
        try:
            return self.controller.ask(request, self.connection)
        except Refused as refused:
            self.machine.refused(refused.code)
            return None

    def beat(self) -> bool:  # type: ignore[override]
        """Registers where that is due, and sends a heartbeat; False if it was refused."""
        if not self.machine.is_registered:
            if self.ask(self.machine.registration(self.id)) is None:
                return False
            self.machine.registered()
            self.may_lack = False
        heartbeat, sent_ms = self.machine.heartbeat(), self.controller.now
        self.last_beat = heartbeat, sent_ms
        if self.ask(heartbeat) is None:
            return False
        self.machine.beat_answered(sent_ms, self.controller.now)
        return True

    def look(self) -> None:
        """Asks who is master, and has one elected where there is none."""
        if not self.machine.is_registered:
            return
        reply = self.ask(ControllerGetReplicaInfo("broker-a"))
        elected = None if reply is None else Elected.of(reply)
        if reply is not None and elected is None:
            self.machine.contradicted()
            self.beat()
            reply = self.ask(self.machine.election(self.controller.now))
            elected = None if reply is None else Elected.of(reply)
        if elected is not None:
            self.machine.heard(elected)

    def go_on(
        self, members: list[Member], steps: int = MANY_STEPS, fails_at: ChangeStep | None = None
    ) -> None:
        """Carries out so many steps. A change of role gets no further than `fails_at`."""
        for _ in range(steps):
            step = self.machine.next_step(self.controller.now)
            if step is None:
                return
            if isinstance(step, FindLog):
                (master,) = (one for one in members if address_of(one.id) == step.master_address)
                is_ready = master.role.current is Role.MASTER
                self.machine.log_found(ha_address_of(master.id) if is_ready else "")
            elif isinstance(step, Beat):
                if not self.beat() and not step.tells:
                    self.machine.failed()
                if step.tells:
                    self.machine.told()
            elif isinstance(step, ChangeRole):
                self.change_role(step.change, fails_at)
            elif not isinstance(step, AskLater):
                self.carry_out(step)
                self.records = self.records[: self.log.max_physical // RECORD]
            self.settle()

    def settle(self) -> None:
        """Has the confirm offset follow the promise, as after each turn."""
        log, reached = self.log, self.promise.replicated
        end = log.max_physical if reached is None else min(reached, log.max_physical)
        log.confirmed = max(log.confirm_offset, end) if self.role.is_master else end

    def append(self, record: tuple[int, int]) -> None:
        """Stores a record."""
        self.records.append(record)
        self.log.max_physical += RECORD

    def follow(self, master: Member, most: int, members: list[Member]) -> None:
        """A slave and its master agree where to go on, and some records come."""
        is_followed = self.role.current is Role.SLAVE and self.role.ha_address == ha_address_of(master.id)
        newest = master.epochs.last
        if not is_followed or master.role.current is not Role.MASTER or newest < self.role.epoch:
            return
        end = self.log.max_physical
        if end and self.epochs.entries:
            common = self.epochs.common_end(end, master.epochs.entries, master.log.max_physical)
            if common is None:
                return  # others have nothing of it: it is refused, and an operator empties its store
            if common < end:
                self.machine.diverged(common)
                self.go_on(members)
                return
        for record in master.records[len(self.records) :][:most]:
            epoch, _ = master.epochs.at(self.log.max_physical)
            if epoch.number > self.epochs.last:
                self.epochs.append(epoch)
            self.append(record)
        master.now = self.controller.now
        master.role.note_epoch(self.role.epoch)
        master.role.note_member(self.id, is_able=self.may_be_blind)
        master._line(f"{self.id} is linked at {self.log.max_physical}")
        self.role.release_readers()
        self.role.note_confirmed(master.log.confirm_offset)
        self.settle()
        master.settle()


class Roles(RuleBasedStateMachine):
    """Three brokers with time limits of their own; controllers that take over have overheard some of them."""

    @initialize(
        timeouts=st.lists(st.sampled_from((1_000, TIMEOUT_MS, 20_000)), min_size=MEMBERS, max_size=MEMBERS),
        may_be_blind=st.booleans(),
    )
    def begin(self, timeouts: list[int], may_be_blind: bool) -> None:
        self.story = ControllerStory()
        self.members = [
            Member(self.story, index + 1, ms, may_be_blind=may_be_blind) for index, ms in enumerate(timeouts)
        ]
        self.acknowledged: dict[int, tuple[int, int]] = {}
        """Place in the log -> record."""
        self.masters: dict[int, int] = {}
        """Epoch -> the id of its master."""
        self.late: list[Request[Any]] = []
        self.number = 0
        for member in self.members:
            member.beat()
            self.look(member.id - 1, MANY_STEPS)
        self.live({0, 1, 2}, 0)
        self.live({0, 1, 2}, 6)

    # What brokers do.

    @rule(awake=st.sets(INDEX), seconds=st.sampled_from((0, 1, 5, 25)))
    def live(self, awake: set[int], seconds: int) -> None:
        """Time passes, and some members beat, look, follow and keep their set; the others sleep."""
        for second in range(seconds + 1):
            self.story.pass_time(1_000 if second else 0)
            for index in sorted(awake):
                self.members[index].beat()
                self.look(index, MANY_STEPS)
                self.look_at_lease(index)
                self.alter_set(index, "answered")
            for slave in awake:
                for master in awake - {slave}:
                    self.replicate(slave, master, MANY_STEPS)

    @rule(index=INDEX)
    def beat(self, index: int) -> None:
        self.members[index].beat()

    @rule(index=INDEX, steps=st.integers(0, 5), fails_at=st.none() | st.sampled_from(ChangeStep))
    def look(self, index: int, steps: int, fails_at: ChangeStep | None = None) -> None:
        self.members[index].look()
        self.members[index].go_on(self.members, steps, fails_at)

    @rule(index=INDEX)
    def hear_of_no_controller(self, index: int) -> None:
        self.members[index].machine.nobody_answers()
        self.members[index].go_on(self.members)

    @rule(index=INDEX)
    def look_at_lease(self, index: int) -> None:
        member = self.members[index]
        step = member.machine.lease_step(self.story.now)
        if step is not None:
            member.carry_out(step)
            member.settle()

    @rule(index=INDEX, outcome=st.sampled_from(("answered", "request lost", "request late", "answer lost")))
    def alter_set(self, index: int, outcome: str) -> None:
        member = self.members[index]
        machine = member.machine
        member.now = self.story.now
        if not machine.is_set_due(self.story.now):
            return
        question = machine.set_question()
        if question is not None:
            info = member.ask(question)
            if info is None or not machine.set_heard(info):
                return
        request = machine.set_change(self.story.now)
        if request is not None:
            member.settle()
            if outcome == "request late":
                self.late.append(request)
            reply = member.ask(request) if outcome.startswith("answer") else None
            if reply is not None and outcome == "answered":
                machine.set_changed(reply)
        member.settle()

    @rule(data=st.data())
    def late_request_arrives(self, data: st.DataObject) -> None:
        """A request of a connection that was given up is carried out, if the controller takes it yet."""
        if self.late:
            request = self.late.pop(data.draw(st.integers(0, len(self.late) - 1)))
            with contextlib.suppress(Refused):
                self.story.ask(request)

    # Messages and replication.

    @rule(index=INDEX)
    def send(self, index: int) -> None:
        member = self.members[index]
        if member.takes_messages and not member.promise.lacks_replicas:
            self.number += 1
            member.append((member.role.epoch, self.number))
            member.settle()

    @rule(slave=INDEX, master=INDEX, most=st.integers(0, 3))
    def replicate(self, slave: int, master: int, most: int) -> None:
        if slave != master:
            self.members[slave].follow(self.members[master], most, self.members)

    @rule(slave=INDEX, master=INDEX)
    def cut_link(self, slave: int, master: int) -> None:
        self.members[master]._line(f"{slave + 1} is gone")

    @rule(slave=INDEX, master=INDEX)
    def a_set_is_asked_for_and_the_request_comes_late(self, slave: int, master: int) -> None:
        """The slave was out of the set, joins it, and is gone as messages come. Then the master dies."""
        if slave == master:
            return
        self.cut_link(slave, master)
        self._beats_and_alters(slave, master, "answered")
        self.replicate(slave, master, MANY_STEPS)
        self._beats_and_alters(slave, master, "request late")
        self.cut_link(slave, master)
        self._beats_and_alters(slave, master, "request lost")
        self.send(master)
        self.replicate(3 - slave - master, master, MANY_STEPS)
        self.a_new_master_has_what_was_acknowledged()
        for request in self.late:
            with contextlib.suppress(Refused):
                self.story.ask(request)
        self.late.clear()
        self.restart(master)
        self.beat(slave)
        self.look(slave, MANY_STEPS)

    def _beats_and_alters(self, slave: int, master: int, outcome: str) -> None:
        for _ in range(5):
            self.story.pass_time(1_000)
            self.beat(master)
            self.beat(slave)
        self.alter_set(master, outcome)

    @rule(seconds=st.sampled_from((1, 12, 25)), linked=st.sets(INDEX), sends=st.booleans())
    def no_controller_answers(self, seconds: int, linked: set[int], sends: bool) -> None:
        """Time passes without a heartbeat that is answered; some links hold, and messages come."""
        for master in range(MEMBERS):
            for slave in set(range(MEMBERS)) - linked:
                self.cut_link(slave, master)
        for _ in range(seconds):
            self.story.pass_time(1_000)
            for index in range(MEMBERS):
                self.look_at_lease(index)
                self.hear_of_no_controller(index)
                if sends:
                    self.send(index)
                for slave in linked - {index}:
                    self.replicate(slave, index, MANY_STEPS)
            self.a_new_master_has_what_was_acknowledged()

    # Faults and operators.

    @rule(index=INDEX)
    def restart(self, index: int) -> None:
        self.members[index].restart()

    @rule(index=INDEX, records=st.integers(0, 3))
    def lose_power(self, index: int, records: int) -> None:
        """A member loses the end of its log, where another one has it that may be elected then."""
        member, group = self.members[index], BrokerGroup.from_text(self.story.stored["groups/broker-a"])
        may_lead = group.sync_state_set - {member.id}
        if not may_lead and member.epochs.last <= group.reserve_epoch:
            may_lead = group.reserve - {member.id}
        if member.may_be_blind and any(not self.members[one - 1].may_lack for one in may_lead):
            member.lose_power(records)

    @precondition(lambda self: self.members[0].may_be_blind and self._masters())
    @rule(slave=INDEX, case=st.sampled_from(CASES))
    def a_slave_loses_power_apart_from_its_master(self, slave: int, case: str) -> None:
        """It is elected before or after that, or its master hears of it and takes it into the set."""
        master = max(self._masters(), key=lambda one: one.role.epoch).id - 1
        if slave == master:
            return
        self.live({0, 1, 2}, 6)
        if case == "out of the set":
            self.cut_link(slave, master)
            self._beats_and_alters(slave, master, "answered")
        self.send(master)
        for one in {0, 1, 2} - {master}:
            self.replicate(one, master, MANY_STEPS)
        self.a_new_master_has_what_was_acknowledged()
        if case == "elected":
            for _ in range(25):
                self.story.pass_time(1_000)
                self.beat(slave)
        self.lose_power(slave, 1)
        self.beat(slave)
        if case == "beside its master":
            self.beat(master)
            self.look(master, MANY_STEPS)
        self.beat(3 - slave - master)
        if case in ("beside its master", "out of the set"):
            self._beats_and_alters(slave, master, "answered")
        for _ in range(25):
            self.story.pass_time(1_000)
            self.beat(slave)
            self.look(slave, MANY_STEPS)
            self.a_new_master_has_what_was_acknowledged()

    @rule(ms=st.integers(1, 1_000))
    def pass_time(self, ms: int) -> None:
        self.story.pass_time(ms)

    @rule(index=INDEX, named=st.booleans())
    def operator_elects(self, index: int, named: bool) -> None:
        with contextlib.suppress(Refused):
            self.story.ask(ControllerElectMaster("C", "broker-a", index + 1 if named else -1, named))

    @rule(overheard=st.lists(INDEX, max_size=MEMBERS))
    def another_leads(self, overheard: list[int]) -> None:
        self.story.takes_over([self.members[index] for index in overheard])  # type: ignore[misc]

    @rule()
    def operator_removes(self) -> None:
        with contextlib.suppress(Refused):
            self.story.ask(CleanBrokerData("broker-a", "C", str(MEMBERS), True))

    # What must hold.

    @invariant()
    def one_answers(self) -> None:
        """A blind one may answer beside it: what all hold who may have been elected."""
        answering = [one for one in self._answering() if one.role.blind_since is None]
        assert len(answering) <= 1, [(one.id, one.role.epoch) for one in answering]

    @invariant()
    def an_epoch_has_one_master(self) -> None:
        for one in self._masters():
            assert self.masters.setdefault(one.role.epoch, one.id) == one.id

    @invariant()
    def a_new_master_has_what_was_acknowledged(self) -> None:
        masters = self._masters()
        newest = max(masters, key=lambda one: one.role.epoch, default=None)
        if newest is None:
            return
        for place, record in self.acknowledged.items():
            if record[0] > newest.role.epoch:
                return  # its successor has restarted since, and this one's lease is over
            assert newest.records[place : place + 1] == [record], (newest.id, place)
        for one in self._answering():
            confirmed = one.log.confirm_offset // RECORD
            for place, record in enumerate(one.records[:confirmed]):
                assert self.acknowledged.setdefault(place, record) == record, (one.id, place)
                assert newest.records[place : place + 1] == [record], (one.id, newest.id, place)

    def _answering(self) -> list[Member]:
        return [one for one in self._masters() if one.machine.may_answer(self.story.now)]

    def _masters(self) -> list[Member]:
        return [one for one in getattr(self, "members", ()) if one.role.current is Role.MASTER]


@pytest.mark.parametrize("case", CASES)
def test_a_slave_that_has_lost_the_end_of_its_log_is_not_elected(case: str) -> None:
    roles = Roles()
    roles.begin([TIMEOUT_MS] * MEMBERS, may_be_blind=True)
    roles.a_slave_loses_power_apart_from_its_master(1, case)
    assert roles.acknowledged
    assert not roles.members[1].may_lack
    roles.live({0, 1, 2}, 25)
    roles.a_new_master_has_what_was_acknowledged()
    assert len(roles._masters()) == 1


Roles.TestCase.settings = settings(max_examples=45, stateful_step_count=40, deadline=None)
test_roles = Roles.TestCase
