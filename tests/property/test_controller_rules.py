"""Whatever brokers and controllers do: one master per epoch, epochs only grow, no unsafe master."""

from __future__ import annotations

import contextlib

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from orbitmq.controller.group import BrokerGroup
from orbitmq.controller.groups import GROUP_KEYS
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.controller import CleanBrokerData
from tests.kit.controller_story import TIMEOUT_MS, ControllerStory, StoryBroker

INDEX = st.integers(0, 3)


class Elections(RuleBasedStateMachine):
    """Brokers come, go, report and ask; controllers lose their lease with decisions on their way."""

    @initialize(allow_unclean=st.booleans())
    def begin(self, allow_unclean: bool) -> None:
        self.story = ControllerStory(enable_elect_unclean_master=allow_unclean)
        self.allow_unclean = allow_unclean
        self.brokers: list[StoryBroker] = [StoryBroker(self.story)]
        self.masters: dict[int, int] = {}
        self.before: BrokerGroup | None = None
        self.last_epoch = 0
        self.backup: dict[str, str] = {}

    def _broker(self, index: int) -> StoryBroker:
        return self.brokers[index % len(self.brokers)]

    @precondition(lambda self: len(self.brokers) < 4)
    @rule()
    def join(self) -> None:
        self.brokers.append(StoryBroker(self.story))

    @rule(index=INDEX, epoch=st.integers(0, 6), offset=st.integers(0, 1000))
    def beat(self, index: int, epoch: int, offset: int) -> None:
        broker = self._broker(index)
        # A log has the epochs that the group has had; a store that was restored may know fewer.
        broker.epoch, broker.max_offset = min(epoch, self.last_epoch), offset
        with contextlib.suppress(Refused):
            broker.beat()

    @rule(index=INDEX)
    def die(self, index: int) -> None:
        self._broker(index).die()

    @rule(ms=st.integers(1, 2 * TIMEOUT_MS))
    def pass_time(self, ms: int) -> None:
        self.story.pass_time(ms)

    @rule(index=INDEX, designate=st.booleans())
    def elect(self, index: int, designate: bool) -> None:
        with contextlib.suppress(Refused):
            self._broker(index).elect(designate)

    @rule(index=INDEX, ids=st.sets(st.integers(1, 4)), stale=st.integers(0, 1))
    def report(self, index: int, ids: set[int], stale: int) -> None:
        group = self._group()
        with contextlib.suppress(Refused):
            self._broker(index).report_in_sync(*ids, epoch=group.master_epoch - stale)

    @rule()
    def another_leads(self) -> None:
        self.story.takes_over()

    @rule()
    def back_up(self) -> None:
        members = {broker.id for broker in self.brokers}
        if self._group().master_epoch and members == self._group().replicas.keys():
            self.backup = dict(self.story.stored)

    @precondition(lambda self: self.backup)
    @rule()
    def restore(self) -> None:
        """The members have heard of the last epoch, and say so."""
        known = BrokerGroup.from_text(self.backup[f"{GROUP_KEYS}broker-a"]).replicas
        self.brokers = [one for one in self.brokers if one.id in known] or self.brokers
        if {one.id for one in self.brokers} - known.keys():
            return
        self.story.stored = dict(self.backup)
        self.before = None
        for broker in self.brokers:
            broker.known_epoch = self.last_epoch
        self.story.takes_over()

    @precondition(lambda self: len(self.brokers) > 1)
    @rule(index=INDEX)
    def remove(self, index: int) -> None:
        broker = self.brokers.pop(index % len(self.brokers))
        with contextlib.suppress(Refused):
            self.story.ask(CleanBrokerData("broker-a", "C", str(broker.id), True))

    @rule(index=INDEX)
    def lose_the_lease_in_an_election(self, index: int) -> None:
        broker = self._broker(index)
        self.story.controller.connection_closed(broker.connection, self.story.now)
        self.story.takes_over()

    def _group(self) -> BrokerGroup:
        return BrokerGroup.from_text(self.story.stored[f"{GROUP_KEYS}broker-a"])

    @invariant()
    def holds(self) -> None:
        if not hasattr(self, "story"):
            return
        group, before = self._group(), self.before
        self.last_epoch = max(self.last_epoch, group.master_epoch)
        epochs = [one.master_epoch for one in group.elections]
        assert epochs == sorted(set(epochs)), "an epoch stands for one election"
        if group.master_id is not None:
            assert self.masters.setdefault(group.master_epoch, group.master_id) == group.master_id
            assert group.master_id in group.sync_state_set
        if before is not None:
            assert group.master_epoch >= before.master_epoch
            assert group.sync_state_set_epoch >= before.sync_state_set_epoch
            if group.sync_state_set != before.sync_state_set:
                assert group.sync_state_set_epoch > before.sync_state_set_epoch
            if group.master_epoch > before.master_epoch:
                first = before.was_never_elected
                restored = before.is_restored or group.is_restored
                assert first or restored or self.allow_unclean or group.master_id in before.sync_state_set
        for _, notice in self.story.told:
            assert notice.master_epoch is not None
            assert self.masters[notice.master_epoch] == notice.master_broker_id
        self.before = group


Elections.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
test_elections = Elections.TestCase
