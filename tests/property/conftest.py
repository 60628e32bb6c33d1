"""No deadlines: a busy machine is no bug. The same examples each time, others with ORBITMQ_EXPLORE=1."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "orbitmq",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=os.environ.get("ORBITMQ_EXPLORE") != "1",
)
settings.load_profile("orbitmq")
