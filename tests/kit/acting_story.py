"""A slave that stands in for its master, told as a story: what it hears, and the steps that follow.

the name servers name 1,2     the members that live; `no name server answers`
its master is linked          or `gone`: the connection to the master
its role changes              it is fenced; `it is a slave again` once the change is over
-> begin the work             the next step, which is carried out
= acts and works              or `acts`, `does not act`
"""

from __future__ import annotations

from orbitmq.broker.metadata.identity import BrokerIdentity
from orbitmq.broker.options import BrokerSettings
from orbitmq.broker.role.acting import ActingStep, StandIn
from orbitmq.broker.role.role import Role, RoleChange
from orbitmq.broker.role.state import RoleState


class ActingStory:
    """The slave 1 of its group, with enableRemoteEscape."""

    def __init__(self, **values: object) -> None:
        given = {"broker_role": "SLAVE", "broker_id": 1, "enable_remote_escape": True, **values}
        settings = BrokerSettings(enable_slave_acting_master=True, **given)  # type: ignore[arg-type]
        self.role = RoleState(settings, 1)
        self.stand_in = StandIn(settings, BrokerIdentity("C", "a", 1, "a:1", "a:2", b""), self.role)
        self.has_master = True

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
            step = self.stand_in.next_step(has_master=self.has_master)
            assert step.value == said[2:].strip(), f"the step is: {step.value}"
            self._carry_out(step)
        elif said.startswith("="):
            found = "acts" if self.role.is_acting else "does not act"
            if self.role.works_for_master:
                found += " and works"
            assert found == said[1:].strip(), f"it {found}"
        elif said.startswith("the name servers name "):
            self.stand_in.group_heard({int(one) for one in said.rpartition(" ")[2].split(",")})
        elif said == "no name server answers":
            self.stand_in.group_heard(None)
        elif said in ("its master is linked", "its master is gone"):
            self.has_master = said.endswith("linked")
        elif said == "its role changes":
            self.role.fence()
            self.stand_in.leave()
        elif said == "it is a slave again":
            self.stand_in.left()
            self.role.act(is_acting=False)
            self.role.follow(RoleChange(Role.SLAVE, 1))
        else:
            raise AssertionError("no such event")

    def _carry_out(self, step: ActingStep) -> None:
        if step in (ActingStep.ACT, ActingStep.STOP):
            self.role.act(is_acting=step is ActingStep.ACT)
        elif step in (ActingStep.BEGIN_WORK, ActingStep.END_WORK):
            self.role.work_for_master(works=step is ActingStep.BEGIN_WORK)
