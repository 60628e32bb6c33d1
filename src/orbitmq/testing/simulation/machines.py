"""Machines of a simulated cluster: each has a name, a clock and a disk, and runs one process at a time."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

from orbitmq.server.controller.server import ControllerServer
from orbitmq.server.lifecycle.broker_server import BrokerServer
from orbitmq.server.lifecycle.clock import Clock
from orbitmq.server.lifecycle.namesrv import NamesrvServer
from orbitmq.store import MessageStore
from orbitmq.store import lock as store_lock
from orbitmq.testing.simulation.disk import MemoryDisk
from orbitmq.testing.simulation.loop import Node, VirtualLoop

WALL_MS = 1_700_000_000_000
"""The wall clock when the virtual one began."""


class VirtualClock(Clock):
    """The wall clock of a machine: set wrong by `offset_ms`, and of its own speed."""

    def __init__(self, loop: VirtualLoop, offset_ms: int = 0, rate: float = 1.0) -> None:
        self._loop = loop
        self._began = loop.now_seconds
        self._offset_ms = offset_ms
        self._rate = rate

    def jump(self, ms: int) -> None:
        """Somebody sets the clock while nothing runs that had read it."""
        self._offset_ms += ms

    def now(self) -> int:
        passed = self._began + (self._loop.now_seconds - self._began) * self._rate
        return WALL_MS + self._offset_ms + int(passed * 1000)


@dataclass(slots=True, eq=False)
class Machine:
    """One machine. Its process is the newest of several lives."""

    name: str
    port: int
    root: Path
    clock: Clock
    node: Node = field(default_factory=lambda: Node("none yet"))
    life: int = 0
    is_up: bool = False
    """True from the start of its process until its end."""
    is_busy: bool = False
    """True while a fault acts on it."""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def next_node(self) -> Node:
        self.life += 1
        self.node = Node(f"{self.name}, life {self.life}", self.name)
        self.is_up = True
        return self.node


@dataclass(slots=True, eq=False)
class NamesrvMachine(Machine):
    """The machine of a name server."""

    server: NamesrvServer | None = None


@dataclass(slots=True, eq=False)
class ControllerMachine(Machine):
    """The machine of a controller."""

    server: ControllerServer | None = None


@dataclass(slots=True, eq=False)
class BrokerMachine(Machine):
    """The machine of a broker."""

    disk: MemoryDisk = field(kw_only=True)
    number: int = 0
    server: BrokerServer | None = None
    is_ready: bool = False
    """True once its broker has started."""
    checked: int = 0
    end: int = 0
    """End of its log when its last life ended: there for sure up to here."""
    reached: int = 0
    """The furthest that its log ever went."""
    has_lost: bool = False
    """True if a power cut took something of its log, and it has not got all of the group's again."""
    followed: object = None
    """Its connection to its master when that lost messages: what it has of them counts for nothing until it
    connects anew."""
    blind_from: int | None = None
    """What it had confirmed when it went on without a controller; None while controllers answer it."""
    gone_ids: set[int] = field(default_factory=set)
    """Ids that a controller gave it, and that it has forgotten with its disk."""
    seen: tuple[object, ...] = ()
    """Its state at the last look."""

    @property
    def store(self) -> MessageStore | None:
        return getattr(self.server, "store", None) if self.is_up else None

    def held_end(self, *, on_disk: bool) -> int:
        """End of its log: of the one that a power cut leaves, or that which the death of its process does."""
        store = self.store
        if store is None:
            return self.end
        return store.durable_offset if on_disk else store.max_physical

    def next_node(self) -> Node:
        """The process of its next life, which has nothing of the memory of the last one."""
        self.server = None
        self.is_ready = False
        self.checked = 0
        self.seen = ()
        self.blind_from = None
        return Machine.next_node(self)  # a dataclass with slots has no super() of its own

    def unlock(self) -> None:
        """Lets the next life have the data folder, though the last one died amid its start."""
        path = self.root / "lock"
        if path.exists():
            found = path.stat()
            store_lock._locked.discard((found.st_dev, found.st_ino))
        store = getattr(self.server, "store", None)
        if store is not None:
            store.abandon()

    def wipe(self, disk: MemoryDisk) -> None:
        """Puts an empty disk in."""
        shutil.rmtree(self.root, ignore_errors=True)
        self.disk = disk
        self.end = self.checked = 0
