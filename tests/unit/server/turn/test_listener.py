from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import ExitStack

import pytest

from orbitmq.server.turn.listener import FREE_PORTS, STRETCH, free_ports

OFFSETS = (-2, 1, 2)


def test_ports_given_out_meet_nothing_given_out_before() -> None:
    # Nobody listens yet on what was given before: that it is free says nothing.
    given: set[int] = set()
    for _ in range(100):
        port = free_ports(*OFFSETS)
        block = set(range(port - 2, port + 3))
        assert given.isdisjoint(block)
        assert min(block) >= FREE_PORTS.start
        given |= block


def test_a_port_in_use_is_passed_over() -> None:
    taken = free_ports(1)
    with socket.socket() as one:
        one.bind(("127.0.0.1", taken + 1))
        walked = [free_ports() for _ in range(STRETCH)]
    assert taken + 1 not in walked


def test_processes_started_one_after_the_other_are_given_different_ports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[set[int]] = []
    for process in (4711, 4712):
        monkeypatch.setattr(os, "getpid", lambda process=process: process)
        given.append({free_ports() for _ in range(200)})
    assert len(given[0]) == len(given[1]) == 200
    assert given[0].isdisjoint(given[1])


def test_processes_at_work_at_the_same_time_are_given_different_ports() -> None:
    # Each of them would begin in the same stretch, and takes more than half of it.
    program = (
        "import os; os.getpid = lambda: 0\n"
        "from orbitmq.server.turn import listener; listener.FREE_PORTS = range(4_000, 9_000)\n"
        f"print(*(listener.free_ports() for _ in range({STRETCH * 6 // 10})), flush=True); input()"
    )
    with ExitStack() as processes:
        both = [
            processes.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
                )
            )
            for _ in range(2)
        ]
        one, other = (set(process.stdout.readline().split()) for process in both if process.stdout)
        for process in both:
            process.communicate(b"\n")
    assert one
    assert one.isdisjoint(other)
