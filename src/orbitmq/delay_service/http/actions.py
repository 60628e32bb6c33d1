"""Actions of the HTTP API: they go through the source topic, as those of all senders do."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING

from orbitmq.delay_service.rules.intake import Outcome, Queue, way_of
from orbitmq.delay_service.rules.targets import Known
from orbitmq.delay_service.sources.writing import SourceWriter

if TYPE_CHECKING:
    from orbitmq.delay_service.rules.intake import Intake

OUTCOME_SECONDS = 15.0
KEPT = 4096
"""Outcomes that are kept for actions whose send has not been answered yet."""


class NoOutcome(Exception):
    """The action is in the source topic, and has not been carried out yet."""


class Actions:
    """Sends actions, and hears of their outcomes."""

    def __init__(self, writer: SourceWriter, topic: str, known: Known) -> None:
        self._writer = writer
        self._topic = topic
        self._known = known
        self._under_way = 0
        self._outcomes: OrderedDict[tuple[Queue, int], Outcome] = OrderedDict()
        self._waiting: dict[tuple[Queue, int], asyncio.Future[Outcome]] = {}

    def listen_to(self, intake: Intake) -> None:
        intake.on_outcome = self._heard

    def _heard(self, queue: Queue, offset: int, outcome: Outcome) -> None:
        if not self._under_way:
            return
        place = (queue, offset)
        waiting = self._waiting.pop(place, None)
        if waiting is not None:
            if not waiting.done():
                waiting.set_result(outcome)
            return
        self._outcomes[place] = outcome
        if len(self._outcomes) > KEPT:
            self._outcomes.popitem(last=False)

    async def carry_out(
        self,
        cluster: str,
        control: dict[str, str],
        body: bytes,
        properties: dict[str, str],
        queue: Queue | None = None,
    ) -> Outcome:
        """The outcome of an action; `queue` is where earlier orders of its name came from, if that is known.

        Raises NotSchedulable, NoOutcome, and what sending raises.
        """
        self._under_way += 1
        try:
            owner = control.get("delay.owner", "")
            topic, queue = way_of(self._known, cluster, owner, queue, self._topic)
            place = await self._writer.write(cluster, topic, control, body, properties, queue)
            outcome = self._outcomes.pop(place, None)
            if outcome is not None:
                return outcome
            waiting: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
            self._waiting[place] = waiting
            try:
                async with asyncio.timeout(OUTCOME_SECONDS):
                    return await waiting
            except TimeoutError:
                raise NoOutcome(
                    f"the action is stored in {place[0]} at offset {place[1]}, and not carried out yet"
                ) from None
            finally:
                self._waiting.pop(place, None)
        finally:
            self._under_way -= 1
