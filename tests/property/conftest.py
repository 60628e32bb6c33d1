"""How many examples, and no deadlines: a busy machine is no bug."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("orbitmq", deadline=None)
settings.load_profile("orbitmq")
