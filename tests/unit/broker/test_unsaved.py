from orbitmq.broker.unsaved import Unsaved


def test_urgent_tables_are_taken_at_once_and_the_rest_at_its_interval() -> None:
    unsaved = Unsaved()
    unsaved.mark("topics")
    unsaved.mark("offsets", soon=False)
    assert unsaved.any_soon
    assert unsaved.take_soon() == {"topics"}
    assert not unsaved.any_soon
    assert "offsets" in unsaved
    assert unsaved.take("offsets")
    assert not unsaved.take("offsets")


def test_an_urgent_write_makes_the_later_one_needless() -> None:
    unsaved = Unsaved()
    unsaved.mark("offsets", soon=False)
    unsaved.mark("offsets")
    assert unsaved.take_soon() == {"offsets"}
    assert "offsets" not in unsaved


def test_the_last_write_takes_everything() -> None:
    unsaved = Unsaved()
    unsaved.mark("topics")
    unsaved.mark("delay", soon=False)
    assert unsaved.take_all() == {"topics", "delay"}
    assert unsaved.take_all() == set()
