"""The file of a broadcasting consumer's offsets: Java's own form, the version before it, and torn ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orbitmq.client.consumer.local_offsets import LocalOffsetTable, read_offsets
from orbitmq.client.core.instance import ClientInstance
from orbitmq.client.core.options import ClientOptions
from orbitmq.protocol.bodies.queue import MessageQueue

FIRST, SECOND = MessageQueue("T1", "broker-a", 0), MessageQueue("T1", "broker-a", 1)


async def table(folder: Path) -> LocalOffsetTable:
    options = ClientOptions("G", "127.0.0.1:1", instance_name="DEFAULT")
    return LocalOffsetTable(ClientInstance(options, "10.0.0.9", producer_groups=[]), "G", folder)


async def test_offsets_are_kept_where_java_looks_for_them(tmp_path: Path) -> None:
    offsets = await table(tmp_path)
    offsets.set(FIRST, 12)
    await offsets.commit([FIRST, SECOND])
    path = tmp_path / "10.0.0.9@DEFAULT" / "G" / "offsets.json"
    text = '{\n\t"offsetTable":{\n\t\t{"brokerName":"broker-a","queueId":0,"topic":"T1"}:12\n\t}\n}'
    assert path.read_text() == text
    assert await (await table(tmp_path)).stored(FIRST) == 12
    assert await offsets.stored(SECOND) is None


async def test_the_version_before_stays_and_other_queues_too(tmp_path: Path) -> None:
    offsets = await table(tmp_path)
    offsets.set(FIRST, 1)
    await offsets.commit([FIRST])
    other = await table(tmp_path)
    other.set(SECOND, 5)
    await other.commit([SECOND])
    assert read_offsets(offsets.path) == {FIRST: 1, SECOND: 5}
    assert read_offsets(offsets.path.with_name("offsets.json.bak")) == {FIRST: 1}


@pytest.mark.parametrize("damage", [b"", b'{"offsetTable":{{"broker', None], ids=["empty", "torn", "gone"])
async def test_a_file_that_is_torn_or_gone_is_made_good_by_the_one_before(
    tmp_path: Path, damage: bytes | None
) -> None:
    offsets = await table(tmp_path)
    for offset in (1, 2):
        offsets.set(FIRST, offset)
        await offsets.commit([FIRST])
    if damage is None:
        offsets.path.unlink()
    else:
        offsets.path.write_bytes(damage)
    assert await offsets.stored(FIRST) == 1


async def test_nothing_is_written_while_nothing_moves(tmp_path: Path) -> None:
    offsets = await table(tmp_path)
    offsets.set(FIRST, 1)
    await offsets.commit([FIRST])
    before = os.stat(offsets.path).st_ino
    await offsets.commit([FIRST])
    assert os.stat(offsets.path).st_ino == before


async def test_a_file_that_cannot_be_read_is_no_reason_to_begin_anew(tmp_path: Path) -> None:
    offsets = await table(tmp_path)
    offsets.path.mkdir(parents=True)
    with pytest.raises(LookupError, match="cannot be read: Is a directory; make it a file"):
        await offsets.stored(FIRST)
    offsets.set(FIRST, 1)
    await offsets.commit([FIRST])  # told, not raised: it is tried again with the next commit
    assert offsets.known(FIRST) == 1
