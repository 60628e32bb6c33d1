"""Errors of a lake."""

from __future__ import annotations

from orbitmq.spark.errors import SparkSourceError


class LakeError(SparkSourceError):
    """The lake cannot be used as asked."""


class LakeBusy(LakeError):
    """Somebody else writes to the lake."""


class LakeDamaged(LakeError):
    """Its manifests contradict each other, or the files."""


class SchemaMismatch(LakeError):
    """The columns to be written do not fit those that the lake has."""
