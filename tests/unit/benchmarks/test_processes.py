"""Facts that benchmarks learn of processes."""

from __future__ import annotations

import os
import subprocess
import sys

from benchmarks.processes import WatchedCpu

BURNING = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
child = os.fork()
while not child and time.process_time() < 1.0: pass
if child:
    while True:
        try: os.wait()
        except ChildProcessError: break
"""
"""A child uses a second of CPU time, and its parent is not told of it."""


def test_cpu_time_of_children_counts_though_their_parents_are_not_told() -> None:
    with WatchedCpu(os.getpid()) as cpu:
        subprocess.run([sys.executable, "-c", BURNING], check=True)
    assert cpu.seconds > 0.5
