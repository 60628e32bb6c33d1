"""Single records that requests name by their place in the log."""

from __future__ import annotations

from collections.abc import Generator

from orbitmq.store import MessageStore


def read_record(
    store: MessageStore, physical_offset: int, *, unconfirmed: bool = False
) -> Generator[None, None, memoryview | None]:
    """The record at a physical offset, read in a thread: it may be on the disk alone.

    With `unconfirmed` it may lie behind what readers see.
    """
    search = store.search()
    end = store.max_physical if unconfirmed else None

    def work() -> Generator[None, None, memoryview | None]:
        yield
        return search.record_at(physical_offset, end)

    return work()
