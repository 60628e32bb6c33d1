import pytest

from orbitmq.spark.session.start_query import TOO_BUSY
from orbitmq.spark.session.start_retry import retry_start


class Failing:
    def __init__(self, times: int, text: str) -> None:
        self.times = times
        self.text = text
        self.tries = 0

    def __call__(self) -> str:
        self.tries += 1
        if self.tries <= self.times:
            raise RuntimeError(self.text)
        return "done"


def test_a_busy_machine_is_tried_again() -> None:
    act = Failing(2, f"Query terminated: {TOO_BUSY}. SQLSTATE: XXKST")
    assert (retry_start(act), act.tries) == ("done", 3)


def test_not_for_ever() -> None:
    act = Failing(9, TOO_BUSY)
    with pytest.raises(RuntimeError, match=TOO_BUSY):
        retry_start(act, tries=3)
    assert act.tries == 3


def test_anything_else_is_an_error_at_once() -> None:
    act = Failing(1, "offsets are gone")
    with pytest.raises(RuntimeError, match="gone"):
        retry_start(act)
    assert act.tries == 1
