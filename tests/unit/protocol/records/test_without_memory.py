"""If memory ends in a codec, the caller gets an error, and the process goes on.

Each allocation fails some hundred times in a process of its own: what is freed twice ends it sooner or later.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from orbitmq.protocol.records.batch_cy import encode_batch, split_batch
from orbitmq.protocol.records.encoding_cy import encode_batch_records
from orbitmq.protocol.records.message_cy import decode_records, split_records
from orbitmq.protocol.records.properties import decode_properties, index_keys
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.remoting.frame import MAX_FRAME_BYTES, decode_frames, encode_command

HOST = b"\x7f\0\0\1\0\0\x2a\x9f"
TIMES = 400
MOST_ALLOCATIONS = 1_000


def codecs() -> dict[str, Callable[[], object]]:
    """A call of each, with input that has something of every kind."""
    fields = {
        "topic": "T",
        "queueId": "3",
        "remark": 'ä "quoted"\n',
        **{f"name{at}": "x" * at for at in range(8)},
    }
    commands = [
        Command(310, 1, 0, fields, b"body"),
        Command(0, 2, 1, fields, serialize=1),
        Command(1, 3, 1, None),
    ]
    frames = b"".join(map(encode_command, commands))
    batch = encode_batch([(0, b"body %d" % at, b"KEYS\x01a b\x02") for at in range(9)])
    properties = b"KEYS\x01a b c\x02TAGS\x01t\x02" + b"".join(b"name%d\x01value\x02" % at for at in range(9))
    log = bytearray(10_000)
    records = partial(encode_batch_records, log, 0, 0, 0, 0, 0, 0, HOST, 0, HOST, 0, batch, b"T")
    end = sum(
        int.from_bytes(size, "big") for size in (records()[at + 8 : at + 12] for at in range(0, 180, 20))
    )
    return {
        **{f"encode_command {at}": partial(encode_command, one) for at, one in enumerate(commands)},
        "decode_frames": partial(decode_frames, frames, MAX_FRAME_BYTES),
        "encode_batch_records": records,
        "decode_records": partial(decode_records, bytes(log[:end])),
        "split_records": partial(split_records, bytes(log[:end])),
        "split_batch": partial(split_batch, batch),
        "encode_batch": partial(encode_batch, split_batch(batch)),
        "decode_properties": partial(decode_properties, properties),
        "index_keys": partial(index_keys, "T", properties),
    }


def starve(name: str) -> None:
    """Has each allocation of a call fail, until it needs none of those that would."""
    testcapi: Any = importlib.import_module("_testcapi")
    call = codecs()[name]
    for at in range(MOST_ALLOCATIONS):
        succeeded = True
        for _ in range(TIMES):
            testcapi.set_nomemory(at, at + 1)
            try:
                call()
            except MemoryError:
                succeeded = False
            finally:
                testcapi.remove_mem_hooks()
        if succeeded:
            return
    raise AssertionError(f"{name} needs more than {MOST_ALLOCATIONS} allocations")


@pytest.mark.parametrize("name", codecs())
def test_a_codec_short_of_memory_raises_and_the_process_lives(name: str) -> None:
    pytest.importorskip("_testcapi", reason="NOT RUN: this Python has no _testcapi")
    root = Path(__file__).parents[4]
    command = [sys.executable, "-X", "faulthandler", "-m", __name__, name]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    starve(sys.argv[1])
