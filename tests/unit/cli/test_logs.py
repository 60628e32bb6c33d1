import io
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.cli import logs


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[logging.Logger]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield root
    root.handlers[:], root.level = handlers, level


def test_text_for_people() -> None:
    stream = io.StringIO()
    logs.set_up("info", "text", stream)
    logging.getLogger("a.b").info("hello %d", 1)
    logging.getLogger("a.b").debug("not asked for")
    [line] = stream.getvalue().splitlines()
    assert line.endswith("INFO    a.b: hello 1")
    assert line[:4].isdigit()


def test_json_for_collectors() -> None:
    stream = io.StringIO()
    logs.set_up("debug", "json", stream)
    try:
        raise ValueError("two\nlines")
    except ValueError:
        logging.getLogger("a").exception("it ü")
    [line] = stream.getvalue().splitlines()
    entry = json.loads(line)
    assert (entry["level"], entry["logger"], entry["message"]) == ("error", "a", "it ü")
    assert "ValueError: two\nlines" in entry["exception"]
    assert entry["time"].endswith("Z")


def test_under_journald_lines_have_priorities_and_no_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "journal").open("w+") as stream:
        status = os.fstat(stream.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{status.st_dev}:{status.st_ino}")
        logs.set_up("info", "text", stream)
        logging.getLogger("a").warning("first\nsecond")
        stream.seek(0)
        assert stream.read() == "<4>a: first\\nsecond\n"


@pytest.mark.parametrize("form", ["text", "json"])
def test_names_from_the_wire_stay_on_their_line_and_move_no_cursor(form: str) -> None:
    stream = io.StringIO()
    logs.set_up("info", form, stream)
    hostile = "a\r\n2026-01-01 ERROR root: forged\x1b[2J\x7f\x9b\u2028\u202e"
    try:
        raise ValueError(hostile)
    except ValueError:
        logging.getLogger("a").exception("no broker %s", hostile)
    lines = stream.getvalue().removesuffix("\n").split("\n")
    shown = "".join(lines)
    assert not set(shown) & set("\r\x1b\x7f\x9b\u2028\u202e")
    if form == "json":
        assert json.loads(lines[0])["message"] == f"no broker {hostile}"
        assert len(lines) == 1
    else:
        assert lines[0].endswith(r"no broker a\r\n2026-01-01 ERROR root: forged\x1b[2J\x7f\x9b\u2028\u202e")
        assert all(line.startswith("  ") for line in lines[1:])


@pytest.mark.parametrize("value", ["", "x", "1", "1:2:3", "8:99999999999"])
def test_another_journal_is_not_ours(value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOURNAL_STREAM", value)
    with (tmp_path / "log").open("w") as stream:
        assert not logs.under_journald(stream)
    assert not logs.under_journald(io.StringIO())
