from __future__ import annotations

import pytest

from orbitmq.client.core.subscription import Sql, subscription, tags_of, wants
from orbitmq.protocol.names import IllegalName


@pytest.mark.parametrize("everything", ["*", "", None, "  ", " * "])
def test_everything(everything: str | None) -> None:
    row = subscription("T", everything, 5)
    assert (row.topic, row.sub_string, row.tags_set, row.code_set, row.sub_version) == (
        "T",
        "*",
        set(),
        set(),
        5,
    )
    assert wants(row, None)
    assert wants(row, "any")


def test_tags_are_split_as_java_does() -> None:
    row = subscription("T", "TagA || TagB|| ", 5)
    assert row.sub_string == "TagA || TagB|| "
    assert row.tags_set == {"TagA", "TagB"}
    assert row.code_set == {2598919, 2598920}
    assert row.expression_type == "TAG"
    assert wants(row, "TagA")
    assert not wants(row, "TagC")
    assert not wants(row, None)


def test_several_tags_may_come_as_such() -> None:
    assert subscription("T", ["a", "b"], 0).sub_string == "a || b"


def test_a_text_without_a_tag_is_refused() -> None:
    with pytest.raises(ValueError, match="names no tag"):
        tags_of("||")


def test_the_topic_is_checked() -> None:
    with pytest.raises(IllegalName):
        subscription("no spaces", "*", 0)


def test_an_expression_goes_to_brokers_as_it_is() -> None:
    row = subscription("T", Sql("price > 10 || x"), 5)
    assert (row.expression_type, row.sub_string, row.sub_version) == ("SQL92", "price > 10 || x", 5)
    assert (row.tags_set, row.code_set) == (set(), set())
    assert wants(row, None)
    assert wants(row, "any")


def test_an_empty_expression_is_refused() -> None:
    with pytest.raises(ValueError, match="chooses nothing"):
        Sql("  ")


@pytest.mark.parametrize("nothing", [[], (), set()])
def test_an_empty_list_of_tags_is_not_everything(nothing: list[str]) -> None:
    with pytest.raises(ValueError, match="for every message say"):
        subscription("T", nothing, 5)
