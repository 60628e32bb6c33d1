"""Bad files of those that are not the broker: the name server's, and a broadcasting consumer's.

`docs/trust/reliability.md` has the table that follows from `TABLE`.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from orbitmq.client.consumer.local_offsets import LocalOffsetTable
from orbitmq.client.core.instance import ClientInstance
from orbitmq.client.core.options import ClientOptions
from orbitmq.nameserver.options import NamesrvSettings
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.requests.route import GetKvConfig, PutKvConfig, UpdateNamesrvConfig
from orbitmq.server.errors import StartError
from orbitmq.server.lifecycle.namesrv import NamesrvServer
from tests.fault.bad_files import (
    KEPT,
    REFUSED,
    REPAIRED,
    TABLE,
    Defect,
    assert_documented,
    empty,
    folder,
    foreign,
    longer,
    missing,
    pipe,
    swapped,
    truncated,
    unreadable,
    zeros,
)

pytestmark = pytest.mark.usefixtures("modes_hold")

OTHER_TABLE = '{"topicConfigTable":{"T":{"topicName":"T"}}}'
OPTIONS = [missing, empty, truncated, foreign, zeros, longer, folder, pipe, swapped, unreadable]
FIRST, SECOND = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1)


def name_of(defect: Defect) -> str:
    return defect.__name__


def spoil(path: Path, defect: Defect) -> None:
    if defect is swapped:
        path.write_text(OTHER_TABLE)
    else:
        defect(path, path.parent)


def spoil_all(path: Path, defect: Defect, has_backup: bool) -> bytes:
    """Leaves nothing whole: the backup is spoilt as well, or gone. Gives what the file holds now."""
    backup = path.with_name(path.name + ".bak")
    spoil(path, defect)
    if has_backup:
        spoil(backup, defect)
    else:
        backup.unlink()
    return path.read_bytes()


@contextlib.asynccontextmanager
async def name_server(data_dir: Path) -> AsyncIterator[tuple[ConnectionPool, str]]:
    server = NamesrvServer(NamesrvSettings(), data_dir=data_dir, port=0)
    await server.start()
    pool = ConnectionPool()
    try:
        yield pool, server.address
    finally:
        await pool.close()
        await server.stop()


@pytest.fixture
async def used(tmp_path: Path) -> Path:
    """A name server's folder with something in every file, and the version before it."""
    async with name_server(tmp_path) as (pool, address):
        for key in ("a", "b"):
            await pool.call(address, PutKvConfig("N", key, "v"))
        for value in (b"true", b"false"):
            await pool.call(address, UpdateNamesrvConfig(b"needWaitForService=" + value))
    return tmp_path


@pytest.mark.parametrize("defect", TABLE, ids=name_of)
async def test_a_bad_file_of_the_name_server(
    used: Path, defect: Defect, caplog: pytest.LogCaptureFixture
) -> None:
    path = used / "kvConfig.json"
    spoil(path, defect)
    if TABLE[defect] is REFUSED:
        with pytest.raises(StartError) as refused:
            async with name_server(used):
                pass
        (line,) = str(refused.value).splitlines()
        assert str(path) in line
        assert ";" in line, "it says what to do"
        return
    with caplog.at_level(logging.WARNING):
        async with name_server(used) as (pool, address):
            assert (await pool.call(address, GetKvConfig("N", "a"))).value == "v"
            if TABLE[defect] is REPAIRED:
                assert (await pool.call(address, GetKvConfig("N", "b"))).value == "v"
            await pool.call(address, PutKvConfig("N", "c", "v"))
    assert ("kvConfig.json.bak" in caplog.text) == (TABLE[defect] is KEPT), "a warning names what was taken"
    async with name_server(used) as (pool, address):
        for key in ("a", "c"):
            assert (await pool.call(address, GetKvConfig("N", key))).value == "v"


@pytest.mark.parametrize("defect", [truncated, swapped, empty], ids=name_of)
@pytest.mark.parametrize("has_backup", [True, False], ids=["both", "alone"])
async def test_where_no_file_is_left_the_name_server_does_not_begin_empty(
    used: Path, defect: Defect, has_backup: bool
) -> None:
    path = used / "kvConfig.json"
    before = spoil_all(path, defect, has_backup)
    with pytest.raises(
        StartError, match=r"kvConfig\.json and its \.bak cannot be read.*; restore one of them$"
    ):
        async with name_server(used):
            pass
    assert path.read_bytes() == before, "nothing is written over it"


@pytest.mark.parametrize("defect", OPTIONS, ids=name_of)
async def test_a_bad_file_of_the_name_servers_options(used: Path, defect: Defect) -> None:
    """It is written, not read: whatever file is there gives way to the next change."""
    path = used / "namesrv.properties"
    spoil(path, defect)
    if defect in (folder, pipe):
        with pytest.raises(
            StartError, match=r"namesrv\.properties is (a folder|no regular file); move it away"
        ):
            async with name_server(used):
                pass
        return
    async with name_server(used) as (pool, address):
        await pool.call(address, UpdateNamesrvConfig(b"needWaitForService=true"))
    assert "needWaitForService=true" in path.read_text()


@pytest.fixture
async def offsets(tmp_path: Path) -> LocalOffsetTable:
    """The table of a broadcasting consumer that has consumed two queues and is started anew."""
    for queue in (FIRST, SECOND):
        table = _table(tmp_path)
        table.set(queue, 7)
        await table.commit([queue])
    return _table(tmp_path)


def _table(folder: Path) -> LocalOffsetTable:
    options = ClientOptions("G", "127.0.0.1:1", instance_name="DEFAULT")
    return LocalOffsetTable(ClientInstance(options, "10.0.0.9", producer_groups=[]), "G", folder)


@pytest.mark.parametrize("defect", TABLE, ids=name_of)
async def test_a_bad_file_of_a_broadcasting_consumer(
    offsets: LocalOffsetTable, defect: Defect, caplog: pytest.LogCaptureFixture
) -> None:
    spoil(offsets.path, defect)
    if TABLE[defect] is REFUSED:
        with pytest.raises(LookupError, match=r"offsets\.json cannot be read.*; make it a file"):
            await offsets.stored(FIRST)
        return
    with caplog.at_level(logging.WARNING):
        assert await offsets.stored(FIRST) == 7
    assert await offsets.stored(SECOND) == (7 if TABLE[defect] is REPAIRED else None)
    offsets.set(SECOND, 8)
    await offsets.commit([SECOND])
    assert (await offsets.stored(FIRST), await offsets.stored(SECOND)) == (7, 8)
    assert ("offsets.json.bak" in caplog.text) == (TABLE[defect] is KEPT), "a warning names what was taken"


async def test_a_torn_file_of_a_broadcasting_consumer_never_becomes_the_backup(
    offsets: LocalOffsetTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    truncated(offsets.path, offsets.path.parent)
    torn = offsets.path.read_bytes()

    def replace_until_killed(source: Path, target: Path) -> None:
        if target == offsets.path:
            raise OSError("killed")
        source.rename(target)

    offsets.set(SECOND, 8)
    with monkeypatch.context() as patch:
        patch.setattr("orbitmq.client.consumer.local_offsets.os.replace", replace_until_killed)
        await offsets.commit([SECOND])
    assert not offsets.path.exists(), "the write ended between its two steps"
    assert await offsets.stored(FIRST) == 7
    assert offsets.path.with_name("offsets.json.torn").read_bytes() == torn


@pytest.mark.parametrize("defect", [truncated, swapped, empty], ids=name_of)
@pytest.mark.parametrize("has_backup", [True, False], ids=["both", "alone"])
async def test_where_no_file_is_left_a_broadcasting_consumer_does_not_begin_elsewhere(
    offsets: LocalOffsetTable, defect: Defect, has_backup: bool
) -> None:
    before = spoil_all(offsets.path, defect, has_backup)
    with pytest.raises(
        LookupError, match=r"offsets\.json and its \.bak cannot be read.*; restore one of them"
    ):
        await offsets.stored(FIRST)
    offsets.set(FIRST, 9)
    await offsets.commit([FIRST])
    assert offsets.path.read_bytes() == before, "nothing is written over it"


def test_the_document_has_each_case() -> None:
    assert_documented("namesrv/kvConfig.json", TABLE)
    assert_documented("namesrv/namesrv.properties", OPTIONS)
    assert_documented("rocketmq_offsets/CLIENT/G/offsets.json", TABLE)
