"""Rows that no code reads, as the data file lists them."""

import pytest

from orbitmq.options import OptionTable, RefusedValue, Settings, Status
from orbitmq.options.apache import apache_rows, rows_of


def test_rows_without_effect_may_change_unless_they_name_places_or_rights() -> None:
    given = [("useIt", "boolean", True), ("storePath", "String", "")]
    rows = rows_of([{"owner": "MessageStoreConfig", "without_effect": "not needed", "rows": given}])
    assert [(one.status, one.reason, one.owner) for one in rows] == [
        (Status.NO_EFFECT, "not needed", "MessageStoreConfig")
    ] * 2
    assert [one.mutable for one in rows] == [True, False]


def test_refused_rows_take_their_default_and_nothing_else() -> None:
    given = [
        ("slowly", "boolean", False),
        ("plugIn", "String", None),
        ("kind", "String", "a", {"only": ["a", "b"]}),
    ]
    flag, text, several = rows_of([{"owner": "BrokerConfig", "refused": "too slow", "rows": given}])
    assert flag.parse("false", "the test") is False
    with pytest.raises(RefusedValue, match="too slow"):
        flag.parse("true", "the test")
    assert text.parse("", "the test") == ""
    with pytest.raises(RefusedValue):
        text.parse("Plug", "the test")
    assert several.parse("b", "the test") == "b"


def test_a_part_of_the_file_becomes_rows_of_a_server() -> None:
    row = OptionTable(Settings, apache_rows("namesrv", "network")).find("serverWorkerThreads")
    assert row is not None
    assert (row.kind, row.default, row.owner) == ("int", 8, "NettyServerConfig")
    assert row.status is Status.NO_EFFECT
