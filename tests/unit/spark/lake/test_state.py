"""The content of a lake as its manifests tell it, and the columns that it takes."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("pyarrow")

from orbitmq.spark.jobs.archive.tasks import Written
from orbitmq.spark.lake.errors import SchemaMismatch
from orbitmq.spark.lake.state import HeldRange, LakeFile, LakeState, Manifest, fold
from tests.kit.lakes import SCHEMA


def test_columns_may_come_and_not_change_or_go() -> None:
    state = fold(
        LakeState(), [Manifest(1, "append", "r", 0, schema=(("queueId", "int"), ("body", "binary")))]
    )
    assert state.check_columns((("queueId", "int"), ("body", "binary"))) is None
    wider = state.check_columns((("queueId", "int"), ("body", "binary"), ("keys", "string")))
    assert wider == (("queueId", "int"), ("body", "binary"), ("keys", "string"))
    with pytest.raises(SchemaMismatch, match="body"):
        state.check_columns((("queueId", "int"),))
    with pytest.raises(SchemaMismatch, match="body is binary in the lake"):
        state.check_columns((("queueId", "int"), ("body", "string")))


def test_states_and_manifests_survive_json() -> None:
    file = LakeFile("p", "t", "2024-01-01", 3, 4, 5, 6, {"b|0": (1, 4)}, "s")
    manifest = Manifest(1, "append", "r", 7, (HeldRange("t", "b|0", 1, 4, 3),), (file,), (), SCHEMA, {"x": 9})
    assert Manifest.from_json(manifest.to_json()) == manifest
    state = fold(LakeState(), [manifest])
    assert LakeState.from_json(state.to_json()) == state
    assert state.files["p"] == replace(file, staged="")
    assert Written.from_json(Written(manifest.ranges, manifest.files).to_json()) == Written(
        manifest.ranges, manifest.files
    )
