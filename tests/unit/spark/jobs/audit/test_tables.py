"""Tables of a store as an audit reads them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("pyspark")


from orbitmq.spark.jobs.audit.tables import Files, read_offsets
from orbitmq.spark.offline.storage import open_folder


def test_a_table_of_offsets_with_what_are_none_is_a_finding(tmp_path: Path) -> None:
    queues = {"0": 7, "one": 8, "2": None, "3": "9"}
    path = tmp_path / "store/config/consumerOffset.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"offsetTable": {"orders@billing": queues}}))
    store = open_folder(str(tmp_path / "store"), {})
    files = Files([store.url], [], [], [], {})
    read_offsets(store, files)
    assert [found[1:] for found in files.offsets] == [("billing", "orders", 0, 7)]
    assert [what for _, _, what in files.unreadable] == [
        "orders@billing has no offset of a queue: one: 8",
        "orders@billing has no offset of a queue: 2: None",
        "orders@billing has no offset of a queue: 3: '9'",
    ]
