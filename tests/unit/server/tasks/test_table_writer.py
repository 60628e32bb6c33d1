"""Table files after a power cut: the .bak is taken and said, and nothing begins empty in silence."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
from orbitmq.protocol.requests.group import UpdateAndCreateSubscriptiongroup
from orbitmq.protocol.requests.offset import QueryConsumerOffset, UpdateConsumerOffset
from orbitmq.protocol.requests.send import SendMessageV2
from orbitmq.server.tasks import table_writer
from orbitmq.server.tasks.table_writer import TableFile, TableWriter, made_at_once
from orbitmq.testing import LocalBroker, StartFailed
from tests.kit.running_standalone import PatientPool

OFFSETS = "config/consumerOffset.json"


def exchange(broker: LocalBroker, *requests: object) -> list[object]:
    async def run() -> list[object]:
        pool = PatientPool()
        try:
            return [await pool.call(broker.broker, request) for request in requests]  # type: ignore[arg-type]
        finally:
            await pool.close()

    return asyncio.run(run())


SEND = SendMessageV2("P", "T", "TBW102", 4, 0, 0, 0, 0, "UNIQ_KEY\x01AB\x02", body=b"x")
COMMIT = [UpdateConsumerOffset(consumer_group="G", topic="T", queue_id=0, commit_offset=n) for n in (1, 5)]
QUERY = QueryConsumerOffset(consumer_group="G", topic="T", queue_id=0)


@pytest.fixture
def used(tmp_path: Path) -> LocalBroker:
    """A stopped broker whose group G has offset 5 on T, the .bak written at an earlier stop as well."""
    broker = LocalBroker(tmp_path / "store", autoCreateSubscriptionGroup=True)
    for _ in range(2):
        with broker:
            exchange(broker, SEND)
            group = SubscriptionGroupConfig(group_name="G")
            exchange(broker, UpdateAndCreateSubscriptiongroup(body=group), *COMMIT)
    return broker


def offset(broker: LocalBroker) -> int:
    with broker:
        (reply,) = exchange(broker, QUERY)
    return reply.offset  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize("damage", ["empty", "torn", "zeros", "missing", "other"])
def test_a_damaged_file_is_replaced_by_its_bak(
    used: LocalBroker, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = used.data_dir / OFFSETS
    text = path.read_text()
    match damage:
        case "empty":
            path.write_text("")
        case "torn":
            path.write_text(text[: len(text) // 2])
        case "zeros":
            path.write_bytes(bytes(len(text)))
        case "missing":
            path.unlink()
        case "other":
            path.write_text('{"offsetTable":{"T@G":{"0":"no number"}}}')
    with caplog.at_level(logging.WARNING):
        assert offset(used) == 5
    assert any("consumerOffset.json.bak" in record.getMessage() for record in caplog.records)


def test_when_neither_can_be_used_the_start_says_what_to_do(used: LocalBroker) -> None:
    for name in (OFFSETS, OFFSETS + ".bak"):
        (used.data_dir / name).write_text('{"offsetTable":')
    with pytest.raises(StartFailed, match=r"consumerOffset\.json and its \.bak cannot be read.*restore"):
        used.start()


def test_a_lost_table_beside_messages_is_said(used: LocalBroker, caplog: pytest.LogCaptureFixture) -> None:
    for name in (OFFSETS, OFFSETS + ".bak"):
        (used.data_dir / name).unlink()
    with caplog.at_level(logging.WARNING), used:
        pass
    assert any("though the store holds messages" in record.getMessage() for record in caplog.records)


def test_a_kill_right_after_the_first_start_leaves_nothing_to_warn_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    killed = LocalBroker(tmp_path / "store", own_process=True).start()
    exchange(killed, SEND)
    killed.kill()
    with caplog.at_level(logging.WARNING), LocalBroker(tmp_path / "store"):
        pass
    assert not [record for record in caplog.records if "begins empty" in record.getMessage()]


async def test_a_flood_of_changes_is_one_write_in_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_writer, "LONGEST_PAUSE_SECONDS", 0.3)
    dirty, written = DirtyTables(), asyncio.Queue[float]()
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1) as executor:
        writer = TableWriter(
            {"t": TableFile(tmp_path / "t.json", made_at_once(lambda: "{}"))},
            dirty,
            executor,
            lambda tables, is_change: written.put_nowait(loop.time()),
            pause_per_write=1e9,
        )
        times = []
        for _ in range(3):
            dirty.mark("t")
            writer.notice()
            times.append(await written.get())
        await writer.save_dirty()
    assert times[1] - times[0] >= 0.3
    assert times[2] - times[1] >= 0.3
