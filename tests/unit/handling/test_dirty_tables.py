from orbitmq.handling.dirty_tables import DirtyTables


def test_urgent_tables_are_taken_at_once_and_the_rest_at_its_interval() -> None:
    dirty_tables = DirtyTables()
    dirty_tables.mark("topics")
    dirty_tables.mark("offsets", soon=False)
    assert dirty_tables.any_soon
    assert dirty_tables.drain_soon() == {"topics"}
    assert not dirty_tables.any_soon
    assert "offsets" in dirty_tables
    assert dirty_tables.clear("offsets")
    assert not dirty_tables.clear("offsets")


def test_an_urgent_write_makes_the_later_one_needless() -> None:
    dirty_tables = DirtyTables()
    dirty_tables.mark("offsets", soon=False)
    dirty_tables.mark("offsets")
    assert dirty_tables.drain_soon() == {"offsets"}
    assert "offsets" not in dirty_tables


def test_the_last_write_takes_everything() -> None:
    dirty_tables = DirtyTables()
    dirty_tables.mark("topics")
    dirty_tables.mark("delay", soon=False)
    assert dirty_tables.drain_all() == {"topics", "delay"}
    assert dirty_tables.drain_all() == set()
