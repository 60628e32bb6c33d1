"""The log of a Delta table follows the manifests of the lake."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from orbitmq.spark.errors import BadOption
from orbitmq.spark.lake import lake as lake_module
from orbitmq.spark.lake.lake import Lake
from orbitmq.spark.lake.storage import LakeLocation
from tests.kit.lakes import add, merge


def in_delta(root: Path) -> Counter[tuple[str, int]]:
    from deltalake import DeltaTable

    table = DeltaTable(str(root)).to_pyarrow_table(columns=["topic", "queueOffset"])
    return Counter((row["topic"], row["queueOffset"]) for row in table.to_pylist())


def test_a_delta_log_follows_the_manifests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("deltalake")
    where = LakeLocation(str(tmp_path))
    with Lake.open(where) as lake:
        add(lake, 0, 10, topic="%RETRY%g")  # committed before anybody asked for Delta
    with Lake.open(where, delta=True) as lake:
        assert in_delta(tmp_path) == Counter(("%RETRY%g", n) for n in range(10))
        add(lake, 10, 20, topic="%RETRY%g")
        add(lake, 0, 5)
        expected_rows = Counter([*(("%RETRY%g", n) for n in range(20)), *(("orders", n) for n in range(5))])
        assert in_delta(tmp_path) == expected_rows
        merge(lake)
        assert in_delta(tmp_path) == expected_rows
    with monkeypatch.context() as patch, contextlib.suppress(Crash):
        patch.setattr(lake_module.delta_log, "follow", crash)
        with Lake.open(where) as lake:
            pass
    with Lake.open(where) as lake:  # once a Delta table, always one
        with monkeypatch.context() as patch, contextlib.suppress(Crash):
            patch.setattr(lake_module.delta_log, "follow", crash)
            add(lake, 5, 6)
        assert in_delta(tmp_path) == expected_rows
    with Lake.open(where) as lake:
        assert in_delta(tmp_path) == expected_rows + Counter([("orders", 5)])


class Crash(BaseException):
    """The end of the process."""


def crash(*_: object) -> None:
    raise Crash


def test_a_delta_log_without_its_package_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(BadOption, match="pip install"), Lake.open(LakeLocation(str(tmp_path)), delta=True):
        pass
