"""The service as its ports see it."""

from __future__ import annotations

from typing import Protocol

from orbitmq.delay_service.engine import Engine
from orbitmq.delay_service.instances import InstanceLease
from orbitmq.delay_service.options import ClusterAt, DelaySettings
from orbitmq.delay_service.rules.ddmq_requests import ThriftCounts
from orbitmq.delay_service.sources.reading import SourceState
from orbitmq.delay_service.sources.writing import SourceWriter


class Service(Protocol):
    """Settings, state and work of a delay service."""

    settings: DelaySettings
    clusters: dict[str, ClusterAt]
    writer: SourceWriter

    @property
    def problem(self) -> str:
        """The reason why the store or the consensus store cannot be used; empty if all is well."""

    @property
    def lease(self) -> InstanceLease | None:
        """The part in a service with several instances; None if it stands alone."""

    @property
    def thrift_counts(self) -> ThriftCounts | None:
        """Counts of the thrift port; None without one."""

    @property
    def engine(self) -> Engine | None:
        """The work on the store, None while it is not open."""

    @property
    def is_ready(self) -> bool:
        """True if every source has been read to the end that it had at the start."""

    @property
    def states(self) -> list[SourceState]:
        """The states of all sources."""
