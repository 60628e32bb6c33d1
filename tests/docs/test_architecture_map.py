"""ARCHITECTURE.md's map beside the tree: its layers, its folders, its walks."""

from __future__ import annotations

import asyncio
import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

import orbitmq
from orbitmq import Message, Producer, PushConsumer, ReceivedMessage
from orbitmq.client.core.options import FIRST_OFFSET
from orbitmq.spark.source import DefaultSource
from orbitmq.store.log import append_cy
from tests.kit.running_standalone import running

ROOT = Path(__file__).parents[2]
SOURCES = Path(orbitmq.__file__).parent
TEXT = ROOT.joinpath("ARCHITECTURE.md").read_text()
WALKS = {
    title: tuple(re.findall(r"`([\w/]+\.py)`", files))
    for title, files in re.findall(
        r"^- \*\*(.+?)\.\*\*(.+?)(?=\n- |\n\n|\Z)",
        TEXT.split("\n## Walks\n")[1].split("\n## ")[0],
        re.M | re.S,
    )
}
COMPILED = not append_cy.__file__.endswith(".py")
ONLY_SOMETIMES = {"store/log/confirm.py", "client/consumer/sending_back.py"}
"""Files that a walk names for a case that the test does not have: a slow disk, a handler that failed."""


def test_the_diagram_has_the_layers_that_the_linter_enforces() -> None:
    contracts = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ]
    (layers,) = (one["layers"] for one in contracts if one["type"] == "layers")
    diagram = TEXT.split("## Packages")[1].split("\n\n    ")[1].split("\n\n")[0]
    drawn = [re.split(r" {2,}", line.strip())[0:2] for line in diagram.splitlines()]
    words = [re.findall(r"\w+", " ".join(line)) for line in drawn]
    for layer, line in zip(layers, words, strict=True):
        packages = layer.split(" | ")
        assert sorted(line[: len(packages)]) == sorted(packages)


@pytest.mark.parametrize(
    "package",
    [
        "protocol",
        "store",
        "broker",
        "server",
        "client",
        "admin",
        "console",
        "spark",
        "delay_service",
        "testing",
    ],
)
def test_the_table_of_folders_has_each_folder(package: str) -> None:
    (cell,) = re.findall(rf"^\| `{package}` \| (.+) \|$", TEXT, re.M)
    folders = {path.parent.name for path in SOURCES.joinpath(package).glob("*/__init__.py")}
    assert folders <= set(re.findall(r"`(\w+)`", cell))


def test_every_file_that_is_named_exists() -> None:
    named = set(re.findall(r"`(\w+/[\w/]+\.(?:py|pxd))`", TEXT))
    assert len(WALKS) == 10
    assert {name for name in named if not (SOURCES / name).exists()} == set()


@contextmanager
def followed(passed: list[str]) -> Iterator[None]:
    """Notes the files of OrbitMQ that this thread's calls enter, in order."""
    prefix = f"{SOURCES}/"
    before = sys.getprofile()

    def note(frame: FrameType, event: Any, argument: Any) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(prefix):
            passed.append(name.removeprefix(prefix))
        if before is not None:
            before(frame, event, argument)

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(before)


def assert_walked(title: str, passed: Sequence[str]) -> None:
    """Each file was entered behind the one before it. Compiled modules are not seen."""
    calls = iter(passed)
    for name in WALKS[title]:
        if name in ONLY_SOMETIMES or (COMPILED and name.endswith("_cy.py")):
            continue
        assert any(call == name for call in calls), f"{name} is out of order in the walk {title!r}"


async def test_messages_pass_the_files_of_their_walks_in_order(tmp_path: Path) -> None:
    got: asyncio.Queue[bytes] = asyncio.Queue()
    pushed: list[str] = []
    delayed: list[str] = []
    fast: list[str] = []
    general: list[str] = []

    async def handle(message: ReceivedMessage) -> None:
        got.put_nowait(message.body)

    async with running(tmp_path) as server:
        namesrv = server.server.namesrv.address
        await server.send("T", body=b"plain")
        consumer = PushConsumer("walking", namesrv, consume_from_where=FIRST_OFFSET)
        consumer.subscribe("T", handler=handle)
        async with Producer("walking", namesrv) as producer:
            with followed(pushed):
                async with consumer:
                    assert await got.get() == b"plain"
                    with followed(delayed):
                        await producer.send(Message("T", b"delayed", delay_level=1))
                        assert await got.get() == b"delayed"
            for _ in range(16):  # the first message of each queue takes the general path
                fast.clear()
                with followed(fast):
                    await producer.send(Message("U", b"plain"))
                if "broker/send/handlers.py" not in fast:
                    break
        with followed(general):
            await server.send("T")
    assert_walked("One push consumption", pushed)
    assert_walked("One pull", pushed)
    assert_walked("One delayed message", delayed)
    assert_walked("The same send, on the general path", general)
    if COMPILED:  # interpreted, every send goes the general path
        assert_walked("One send, on the fast path", fast)
        assert "broker/send/handlers.py" not in fast


async def test_a_spark_batch_passes_the_files_of_its_walk_in_order(tmp_path: Path) -> None:
    passed: list[str] = []

    def read(namesrv: str) -> int:
        with followed(passed):
            source = DefaultSource({"namesrv": namesrv, "subscribe": "T"})
            reader = source.reader(StructType([StructField("body", BinaryType())]))
            return len([batch for part in reader.partitions() for batch in reader.read(part)])

    async with running(tmp_path) as server:
        await server.send("T")
        assert await asyncio.to_thread(read, server.server.namesrv.address) == 1
    assert_walked("One Spark batch", passed)
