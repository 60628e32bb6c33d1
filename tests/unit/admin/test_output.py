import json
import sys

import pytest

from orbitmq.admin.output import Column, Done, Facts, Item, Items, Result, Rows, columns, show, time_text
from orbitmq.admin.resets import ResetPreview
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.remoting.versions import version_name
from orbitmq.terminal import escaped_lines

ROWS = Rows(
    (Column("name", "Name"), Column("count", "Count"), Column("at", "At", is_time=True), Column("on", "On")),
    [("a[b]", 1, 0, True), ("c" * 200, 22, 1795260076483, None)],
    "two",
)


def test_rows_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    show(ROWS, False)
    head, first, second, note = capsys.readouterr().out.splitlines()
    assert head.split() == ["Name", "Count", "At", "On"]
    assert first.split() == ["a[b]", "1", "-", "yes"]
    assert second.split()[:2] == ["c" * 200, "22"]
    assert note == "two"


def test_rows_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    show(ROWS, True)
    assert json.loads(capsys.readouterr().out) == [
        {"name": "a[b]", "count": 1, "at": 0, "on": True},
        {"name": "c" * 200, "count": 22, "at": 1795260076483, "on": None},
    ]


def test_facts(capsys: pytest.CaptureFixture[str]) -> None:
    facts = Facts(
        {"keys": ["a", "b"], "properties": {"x": "y"}, "born": 0, "rate": 1.234}, frozenset({"born"})
    )
    show(facts, False)
    assert capsys.readouterr().out.splitlines() == [
        "keys        a, b",
        "properties  x=y",
        "born        -",
        "rate        1.23",
    ]
    show(facts, True)
    assert json.loads(capsys.readouterr().out)["keys"] == ["a", "b"]
    show(Facts({}), False)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "result",
    [
        Rows(columns("name"), [["\x1b[2J\u202e\x9bK\nb"]], "\x07"),
        Facts({"\x1b[H": {"a\rb": ["\x00"]}}),
        Done("made \x1b]0;owned\x07"),
        Items([Item("\x1b[31m", ["\u2066"], "\x9b1A")], [{"head": "\x9b1A"}], "\x7f"),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_no_control_character_of_others_reaches_the_terminal(
    capsys: pytest.CaptureFixture[str], result: Result, as_json: bool
) -> None:
    show(result, as_json)
    text = capsys.readouterr().out
    assert escaped_lines(text) == text
    assert "\\" in text


def test_done(capsys: pytest.CaptureFixture[str]) -> None:
    done = Done("it is so", {"topic": "t"})
    show(done, False)
    show(done, True)
    text, *rest = capsys.readouterr().out.splitlines()
    assert text == "it is so"
    assert json.loads("".join(rest)) == {"done": "it is so", "topic": "t"}


def test_times() -> None:
    assert time_text(0) == time_text(-1) == "-"
    assert len(time_text(1795260076483)) == len("2026-11-21 11:21:16.483")


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (493, "5.4.0"),
        (475, "5.3.1"),
        (413, "5.0.0"),
        (412, "5.0.0-SNAPSHOT"),
        (401, "4.9.4"),
        (121, "121"),
    ],
)
def test_versions(number: int, name: str) -> None:
    assert version_name(number) == name


def test_items_are_wrapped_at_a_terminal_and_whole_lines_in_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    items = Items([Item("The handler " * 9 + "fails.", ["x" * 70, "lag 4"], "Look.")] * 2, [{}], "note")
    show(items, False)
    assert len(capsys.readouterr().out.splitlines()) == 2 * 4 + 1
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    show(items, False)
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert [line[:5] for line in lines[:5]] == ["1. Th", "   ha", "   - ", "   - ", "   > "]


def test_rows_of_results_have_the_values_that_are_named_as_the_columns() -> None:
    heads = columns("topic queueId offset newOffset again", queueId="Queue", times="offset")
    assert [one.head for one in heads] == ["Topic", "Queue", "Offset", "New offset", "Again"]
    assert [one.key for one in heads if one.is_time] == ["offset"]
    effect = [ResetPreview(MessageQueue("orders", "a", 3), 7, 2)]
    rows = Rows.of(heads, effect, "note", offset="consumer_offset")
    assert rows.as_json() == [{"topic": "orders", "queueId": 3, "offset": 7, "newOffset": 2, "again": 5}]
    assert Rows.of(heads, []).as_json() == []
