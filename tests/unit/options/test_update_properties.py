import pytest

from orbitmq.options.properties import parse_properties, update_properties


def test_changed_values_take_the_place_of_the_old_ones_and_the_rest_stays() -> None:
    before = b"# mine\nbrokerName = a\n\ndeleteWhen=04\nlong=one,\\\n   two\n"
    after = update_properties(before, {"deleteWhen": "05", "fileReservedTime": "71"})
    assert after == "# mine\nbrokerName = a\n\ndeleteWhen=05\nlong=one,\\\n   two\nfileReservedTime=71\n"


def test_a_value_over_several_lines_is_replaced_as_a_whole() -> None:
    after = update_properties(b"a=1,\\\n 2\nb=3", {"a": "9"})
    assert parse_properties(after.encode(), "test") == {"a": "9", "b": "3"}
    assert "2" not in after


def test_a_key_that_comes_twice_is_left_once() -> None:
    assert update_properties(b"a=1\na=2\n", {"a": "3"}) == "a=3\n"


def test_an_empty_file_and_a_comment_that_ends_in_a_backslash() -> None:
    assert update_properties(b"", {"a": "1"}) == "a=1\n"
    assert update_properties(b"# c \\\na=1\n", {"a": "2"}) == "# c \\\na=2\n"


def test_other_characters_read_back_as_they_were() -> None:
    before = "name=J\xfcrgen\n".encode("latin-1")
    after = update_properties(before, {"a": "1"})
    assert parse_properties(after.encode(), "test") == {"name": "J\xfcrgen", "a": "1"}


@pytest.mark.parametrize("end", ["\\", "\\\n", "\\\n\n"])
def test_a_file_that_ends_in_the_middle_of_a_line_swallows_nothing_that_is_added(end: str) -> None:
    """Found by fuzzing: the added option became a part of the last value."""
    text = update_properties(f"brokerName=a{end}".encode(), {"added": "1"})
    assert parse_properties(text.encode(), "the file") == {"brokerName": "a", "added": "1"}
    text = update_properties(f"brokerName=a{end}".encode(), {"brokerName": "b"})
    assert parse_properties(text.encode(), "the file") == {"brokerName": "b"}


def test_an_escaped_character_that_is_not_ascii_stays_itself() -> None:
    """Found by fuzzing: it became a backslash, escaped, and the letter u."""
    text = update_properties("a=b\\\u00e4c\nd=\\\\\u00e4\n".encode("latin-1"), {})
    assert text.isascii()
    assert parse_properties(text.encode(), "the file") == {"a": "b\u00e4c", "d": "\\\u00e4"}
