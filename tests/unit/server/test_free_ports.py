from __future__ import annotations

import socket
import subprocess
import sys

from orbitmq.server.listener import FREE_PORTS, STRETCH, free_ports

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


def test_processes_started_together_are_given_different_ports() -> None:
    program = "from orbitmq.server.listener import free_ports; print([free_ports() for _ in range(200)])"
    running = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    first, second = (set(process.communicate()[0].strip("[]\n").split(", ")) for process in running)
    assert len(first) == len(second) == 200
    assert first.isdisjoint(second)
