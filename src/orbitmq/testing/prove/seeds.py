"""Simulated runs of a user's configuration, in a process of their own beside the trial."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from orbitmq.broker.options import BROKER_TABLE, BrokerSettings
from orbitmq.protocol.errors import OrbitError

OPTIONS = (
    "flushDiskType", "flushIntervalCommitLog", "flushCommitLogLeastPages", "flushCommitLogThoroughInterval",
    "flushIntervalConsumeQueue", "flushConsumeQueueLeastPages", "flushConsumeQueueThoroughInterval",
    "flushConsumerOffsetInterval", "flushDelayOffsetInterval", "commitLogRecoverMaxNum",
    "enabledAppendPropCRC", "messageIndexEnable", "messageDelayLevel", "timerWheelEnable",
    "enablePopBufferMerge",
)  # fmt: skip
"""Options that decide about losses and about delivery times. Ports, folders and file sizes mean nothing
to a simulated machine.
"""


@dataclass(slots=True)
class Simulated:
    """The results of the runs."""

    first: int
    """The first seed."""
    seeds: int = 0
    promises_kept: int = 0
    lost_to_power_cuts: int = 0
    failed: dict[str, list[str]] = field(default_factory=dict)
    """Seed -> the promises that were broken."""
    again: str = ""
    """The command that runs a seed again, but for its number."""

    def to_value(self) -> dict[str, Any]:
        return {
            "first_seed": self.first,
            "seeds": self.seeds,
            "promises_kept": self.promises_kept,
            "lost_to_power_cuts": self.lost_to_power_cuts,
            "failed": self.failed,
        }


def options_of(settings: BrokerSettings) -> dict[str, str]:
    """The options that a simulated broker takes over."""
    found = {}
    for name in OPTIONS:
        row = BROKER_TABLE.find(name)
        assert row is not None, name
        value = BROKER_TABLE.value(settings, row)
        found[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return found


async def simulate(options: Mapping[str, str], first: int, seconds: float) -> Simulated:
    """Runs seeds for so long, at least one. Raises OrbitError where they cannot be run."""
    pairs = [part for name, value in options.items() for part in ("--set", f"{name}={value}")]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "orbitmq.testing.simulation", "--json", "--first", str(first),
        "--for", str(seconds), *pairs,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )  # fmt: skip
    try:
        out, said = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    try:
        found = json.loads(out)
    except ValueError:
        last = said.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise OrbitError(f"simulated runs ended without a result: {''.join(last)}") from None
    return Simulated(
        first, found["seeds"], found["kept"], found["lost_to_power_cuts"], found["failed"], found["again"]
    )
