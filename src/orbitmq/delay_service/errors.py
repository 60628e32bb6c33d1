"""Errors of the delay service.

DelayError
├── NotSchedulable    an order that cannot be carried out: its message goes to the dead letters
├── NoForm            a message that has no form at its target's kind of cluster
├── StoreError        the store cannot be used
│   ├── StoreDamaged  its files are not what they were written as
│   ├── StoreLocked   another process uses it
│   ├── StoreVersion  it was written by a newer release
│   └── StoreFull     a write failed; nothing of it was kept
└── ExtraMissing      a package of an extra is not installed
"""

from __future__ import annotations

from orbitmq.client.delays import DelayError


class NotSchedulable(DelayError):
    """An order cannot be carried out; the text is the reason that its sender reads."""


class NoForm(NotSchedulable):
    """A message cannot be told in the terms of its target's kind of cluster."""


class StoreError(DelayError):
    """The store cannot be used."""


class StoreDamaged(StoreError):
    """Files of the store are missing, or are not what they were written as."""


class StoreLocked(StoreError):
    """Another process uses the store."""


class StoreVersion(StoreError):
    """The store was written by a release that this one does not know."""


class StoreFull(StoreError):
    """A write failed, as on a full disk; nothing of it was kept."""


class ExtraMissing(DelayError):
    """A package is not installed that an extra would bring."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed: pip install 'orbitmq[{extra}]'")
