import pytest

from orbitmq.plurals import counted


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 messages"), (1, "1 message"), (2, "2 messages"), (12345, "12,345 messages")]
)
def test_a_noun_follows_its_number(number: int, text: str) -> None:
    assert counted(number, "message") == text
