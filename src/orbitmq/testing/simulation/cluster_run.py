"""One simulated run of a cluster, or of one broker: `run(seed, ...)` gives what happened, and its trace."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from orbitmq.testing.simulation.cluster import Cluster, Fault, Outcome
from orbitmq.testing.simulation.cluster_faults import FAULTS
from orbitmq.testing.simulation.running import play

LONGEST_SECONDS = 6_000


def run(
    seed: int,
    seconds: float = 20.0,
    *,
    has_controller: bool | None = None,
    is_sync: bool | None = None,
    sync_flush: bool | None = None,
    goes_blind: bool = False,
    is_alone: bool = False,
    faults: Mapping[str, Fault] | None = None,
    script: Fault | None = None,
    settings: Mapping[str, object] | None = None,
) -> Outcome:
    """One run; the seed gives what is not given of the mode. Faults are drawn from all, or from some of them;
    a script takes their place.
    """

    def make(root: Path) -> Cluster:
        return Cluster(
            seed, root, dict(settings or {}), has_controller=has_controller, is_sync=is_sync,
            sync_flush=sync_flush, goes_blind=goes_blind, is_alone=is_alone,
            faults=faults or FAULTS, script=script,
        )  # fmt: skip

    outcome: Outcome = play(
        make, lambda cluster: cluster.play(seconds), lambda cluster: cluster.outcome(seed), LONGEST_SECONDS
    )
    return outcome
