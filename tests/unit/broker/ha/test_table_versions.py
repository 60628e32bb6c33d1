"""Changes of a master's tables, and the slaves that have them."""

from __future__ import annotations

from orbitmq.broker.ha.table_versions import TableVersions


def test_a_change_is_taken_once_every_slave_has_told_so() -> None:
    versions = TableVersions(1_000)
    versions.taken(2, versions.version)
    versions.taken(3, versions.version)
    change = versions.changed()
    assert not versions.are_taken(change, (2, 3))
    versions.taken(2, change)
    assert not versions.are_taken(change, (2, 3))
    assert versions.are_taken(change, (2,))
    versions.taken(3, change)
    assert versions.are_taken(change, (2, 3))


def test_a_slave_that_never_tells_holds_up_nobody() -> None:
    versions = TableVersions(1_000)
    assert versions.are_taken(versions.changed(), (2,))


def test_what_an_earlier_process_gave_out_is_no_newer_change() -> None:
    before, after = TableVersions(1_000), TableVersions(2_000)
    after.taken(2, before.changed())
    assert not after.are_taken(after.changed(), (2,))


def test_a_number_that_was_never_given_out_counts_for_nothing() -> None:
    versions = TableVersions(1_000)
    versions.taken(2, versions.version)
    versions.taken(2, 1 << 60)
    assert not versions.are_taken(versions.changed(), (2,))


def test_slaves_of_an_earlier_time_as_master_are_forgotten() -> None:
    versions = TableVersions(1_000)
    versions.taken(2, versions.version)
    versions.forget()
    assert versions.are_taken(versions.changed(), (2,))
