"""A bounded run of what `make fuzz` runs for long, and the episodes in which something was found once."""

from __future__ import annotations

import ast
import os
import time
from pathlib import Path

import pytest

from tests.fuzz.compiled import in_process, run
from tests.fuzz.episodes import EPISODES

SECONDS = float(os.environ.get("ORBITMQ_FUZZ_COMPILED_SECONDS", "1"))
"""For each target, at most."""
EPISODES_EACH = 12
SEED = int(os.environ.get("ORBITMQ_FUZZ_SEED", "1"))
FOUND: list[tuple[str, int, int]] = [
    ("waiting_units", 1, 0),
    ("queue_units", 1, 19),
    ("sends", 1, 15),
    ("sends", 1, 106),
]
"""Target, seed, episode."""


@pytest.mark.parametrize("target", EPISODES)
def test_hostile_input_of_the_compiled_modules(target: str) -> None:
    began = time.monotonic()
    assert run(target, SEED, 0, EPISODES_EACH, SECONDS) > 0
    assert time.monotonic() - began < 60


@pytest.mark.parametrize(("target", "seed", "number"), FOUND)
def test_what_was_found_once(target: str, seed: int, number: int) -> None:
    run(target, seed, number, 1, 60)


def test_a_process_that_does_not_come_to_its_first_episode_is_a_finding(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    assert not in_process("sends", 1, 7, 1, 1)
    assert "sends: ended with 1; again: make fuzz TARGET=sends SEED=1 EPISODE=7" in capsys.readouterr().out


SOURCES = Path(__file__).parents[2] / "src" / "orbitmq"
MET_IN = {
    "broker/auth/admission_cy.py": {"admitted_bytes": "admissions"},
    "broker/delay/delay_cy.py": {"copy_due": "waiting_units"},
    "broker/delay/timer_intake_cy.py": {"plain_units": "waiting_units"},
    "broker/pop/acks_cy.py": {"handle_acks": "acknowledgements"},
    "broker/pull/pulls_cy.py": {"handle_pulls": "pulls", "answer": "pulls"},
    "broker/send/batches_cy.py": {"batch_fits": "batches", "put_ids": "batches", "write_batch": "batches"},
    "broker/send/frames_cy.py": {"handle_sends": "sends"},
    "broker/transaction/decisions_cy.py": {"Decisions": "sends"},
    "client/core/outgoing_cy.py": {},
    "client/producer/deliveries_cy.py": {},
    "client/sending/batching_cy.py": {},
    "protocol/records/batch_cy.py": {"measure_batch": "inner_batches", "split_batch": "inner_batches"},
    "protocol/records/checksums_cy.py": {"property_crc_holds": "records"},
    "protocol/records/encoding_cy.py": {"encode_batch_records": "inner_batches", "encode_record": "sends"},
    "protocol/records/message_cy.py": {
        "decode_record": "records",
        "decode_records": "records",
        "joined_record": "records",
        "read_header": "records",
        "split_records": "records",
    },
    "protocol/records/properties_cy.py": {
        "decode_properties": "texts",
        "find_property": "texts",
        "index_hashes": "texts",
        "index_keys": "texts",
        "tags_code": "texts",
    },
    "protocol/records/scanning_cy.py": {"locate_records": "records", "scan_records": "records"},
    "protocol/remoting/header_cy.py": {"decode_frames": "headers"},
    "spark/read/batch_builder_cy.py": {
        "BatchBuilder": "columns",
        "HostTexts": "columns",
        "new_batch": "columns",
    },
    "spark/read/collecting_cy.py": {"collect_records": "columns"},
    "spark/read/column_builders_cy.py": {"BufferBuilder": "columns", "ColumnBuilder": "columns"},
    "spark/read/selection_cy.py": {"Selection": "columns"},
    "store/index/index_cy.py": {
        "find_entries": "index_chains",
        "first_entry": "index_chains",
        "link_slots": "index_chains",
        "put_entries": "index_chains",
        "put_records": "index_chains",
    },
    "store/log/append_cy.py": {"append_messages": "sends"},
    "store/queue/records_cy.py": {
        "is_sound": "queue_units",
        "properties_of": "queue_units",
        "record_offsets": "queue_units",
    },
    "store/queue/scan_cy.py": {
        "QueueCursor": "pulls",
        "Picked": "queue_units",
    },
    "store/queue/units_cy.py": {"count_confirmed": "queue_units", "count_valid": "queue_units"},
    "store/recovery/replay_cy.py": {"put_next_units": "store_files"},
    "store/replica/follow_cy.py": {"end_of_plain": "masters_logs", "put_plain_units": "masters_logs"},
}
"""Compiled functions that are given bytes of a peer or a file, and an episode in which they are."""
ONLY_OURS = {
    *("crc32", "encode_batch", "record_size", "room_for_crc", "write_property_crc"),
    *("encode_head", "encode_command", "encode_success"),
    "arrivals",
    # of a client, from what its own program gives it:
    *("as_bytes", "check_message", "encoded_properties", "batch_parts"),
    *("delivery_of", "take_batch", "body_of", "complete_stored"),
    *("Message", "Delivery"),
    # results and protocols, and things that rules make once for many requests:
    *("Copied", "HandledAcks", "HandledSends", "LogScan", "Plain"),
    *("AckTemplates", "Grants", "PullRules"),
    *("AckTemplate", "AnswerTemplate", "CachedPullPlan", "Grant", "Limits"),
}
"""They write, or count, what was checked before."""


@pytest.mark.parametrize("path", sorted(SOURCES.rglob("*_cy.py")), ids=lambda path: path.name)
def test_each_compiled_function_meets_hostile_input(path: Path) -> None:
    met = MET_IN[str(path.relative_to(SOURCES))]
    defined = {
        one.name
        for one in ast.parse(path.read_text()).body
        if isinstance(one, ast.FunctionDef | ast.ClassDef)
    }
    assert {name for name in defined if not name.startswith("_")} - ONLY_OURS <= met.keys()
    assert set(met.values()) <= EPISODES.keys()
