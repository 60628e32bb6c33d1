"""An onlooker of a broker group: what its members' logs hold, who writes, and what may never happen.

It sees all members at once, as no program in the cluster does. Records that a broker shows to its readers are
confirmed: from then on every member has to have the same bytes there, as far as it shows them, and every
broker that may be elected has to have what was acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from orbitmq.store import MessageStore


class Member(Protocol):
    """A member of the group."""

    name: str
    checked: int
    """Its log is known to be the group's up to this physical offset."""

    @property
    def store(self) -> MessageStore | None:
        """Its store, while it runs."""


class Ledger:
    """The confirmed log of a group, and the masters of its epochs; `break_(rule, detail)` notes a breach."""

    def __init__(self, name: str, break_: Callable[[str, str], None]) -> None:
        self.name = name
        self.confirmed = bytearray()
        """The bytes that readers were shown."""
        self.masters: dict[int, str] = {}
        """Epoch -> the member elected."""
        self.writers: dict[int, str] = {}
        """Epoch -> the member that took messages in it."""
        self.epoch = 0
        self.set_epoch = 0
        self._break = break_

    def observe(self, member: Member, *, may_lead: bool) -> None:
        """Compares what a member shows with what was confirmed; `may_lead`: beyond that it confirms more."""
        store = member.store
        if store is None:
            return
        end = min(store.confirm_offset, store.max_physical)
        if not may_lead:
            end = min(end, len(self.confirmed))
        if end <= member.checked:
            member.checked = end
            return
        at = max(member.checked, store.min_physical)
        if at > len(self.confirmed):  # retention has taken what lies between
            self.confirmed.extend(bytes(at - len(self.confirmed)))
        while at < end:
            data = bytes(store.log.read(at, end - at))
            if not data:
                self._break("replicas", f"{member.name} shows its log up to {end}, and holds it up to {at}")
                break
            known = bytes(self.confirmed[at : at + len(data)])
            if data[: len(known)] != known:
                first = next(i for i, pair in enumerate(zip(data, known, strict=False)) if len(set(pair)) > 1)
                self._break(
                    "replicas", f"{member.name} shows other bytes at {at + first} than were confirmed there"
                )
                break
            self.confirmed += data[len(known) :]
            at += len(data)
        member.checked = end

    def forget_from(self, physical_offset: int, members: Iterable[Member]) -> None:
        """Notes that messages behind an offset may be lost, by the mode's promise."""
        del self.confirmed[physical_offset:]
        for member in members:
            member.checked = min(member.checked, physical_offset)

    def acknowledged(self, place: int, ends: dict[str, int], needed: int) -> None:
        """A record at a physical offset was acknowledged. `ends` says how far each member that counts holds
        the log, `needed` how many of them have to hold the record.
        """
        holders = [name for name, end in ends.items() if end > place]
        if len(holders) < needed:
            self._break(
                "replicas",
                f"what lies at {place} of {self.name} was acknowledged, and {needed} have to hold it: {ends}",
            )

    def elected(self, epoch: int, master: str, was_in_sync: bool, set_epoch: int) -> None:
        """The consensus store took an election."""
        if epoch <= self.epoch:
            self._break("epochs", f"{self.name}: epoch {epoch} came behind epoch {self.epoch}")
        if set_epoch <= self.set_epoch:
            self._break("epochs", f"{self.name}: set epoch {set_epoch} came behind {self.set_epoch}")
        if self.epoch and not was_in_sync:
            self._break("epochs", f"{self.name}: {master} was elected in {epoch}, and was not in sync")
        self.epoch, self.set_epoch = epoch, set_epoch
        self.masters[epoch] = master

    def changed_set(self, set_epoch: int) -> None:
        """The consensus store took another in-sync set."""
        if set_epoch <= self.set_epoch:
            self._break("epochs", f"{self.name}: set epoch {set_epoch} came behind {self.set_epoch}")
        self.set_epoch = set_epoch

    def writes(self, member: Member, epoch: int) -> None:
        """A member is master in an epoch and may acknowledge."""
        first = self.writers.setdefault(epoch, member.name)
        elected = self.masters.get(epoch)
        if first != member.name or elected not in (None, member.name):
            self._break(
                "epochs",
                f"{member.name} writes in epoch {epoch}, in which {elected} was elected, as {first} does",
            )
