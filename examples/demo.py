"""The whole job in one go: real events into a broker, back out with a filter, and into a Parquet lake.

    make demo                                    or
    python examples/demo.py [--rows N] [--namesrv-port N] [--broker-port N] [--data-dir DIR]

Ctrl-C stops it at any moment; nothing is left running, and the next run goes on over the same store.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from broker_process import Broker, NotStarted, standalone, stopped
from flights import Flights, delays_in_parquet, distinct_keys_in_parquet, same_figures

from orbitmq.spark.errors import JavaNotFound
from orbitmq.spark.java import find_java_home, java_version

HERE = Path(__file__).resolve().parent
TOPIC = "flights"
GROUP = "flights-readers"
QUEUES = 8
TAGS = ("AA", "DL", "UA")
"""American, Delta and United: the filter of the consumer group."""
BATCH = 64

console = Console(highlight=False)
