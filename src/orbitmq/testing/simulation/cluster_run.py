"""One simulated run of a cluster, or of one broker: `run(seed, ...)` gives what happened, and its trace."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

from orbitmq.testing.simulation.cluster import Cluster, Fault, Outcome
from orbitmq.testing.simulation.cluster_faults import FAULTS
from orbitmq.testing.simulation.groups import Mode
from orbitmq.testing.simulation.running import play

LONGEST_SECONDS = 6_000


def run(
    seed: int,
    seconds: float = 20.0,
    *,
    faults: Mapping[str, Fault] | None = None,
    script: Fault | None = None,
    settings: Mapping[str, object] | None = None,
    **mode: bool | None,
) -> Outcome:
    """One run; the seed gives what is not given of the `Mode`. Faults are drawn from all, or from some of
    them; a script takes their place.
    """

    def make(root: Path) -> Cluster:
        chance = random.Random(seed)
        return Cluster(chance, Mode.drawn(chance, **mode), root, settings or {}, faults or FAULTS, script)

    outcome: Outcome = play(
        make, lambda cluster: cluster.play(seconds), lambda cluster: cluster.outcome(seed), LONGEST_SECONDS
    )
    return outcome
