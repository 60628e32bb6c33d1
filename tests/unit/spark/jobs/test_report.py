"""Reports: what stands in them, and what cannot get into them."""

from __future__ import annotations

import datetime
import errno
import os
import re
import stat
import subprocess
import sys
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

from orbitmq.spark.jobs.report import MOST_BARS, MOST_CHARACTERS, MOST_ROWS, Report

HOSTILE = (
    '</td></svg></style><script src="https://example.invalid/x.js">alert(1)</script><img src=x onerror=y>'
)
EVENTS = re.compile(r"^on|^src$|^(xlink:)?href$|^srcset$|^action$")


class Page(HTMLParser):
    """The tags of a page, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []
        self.text = ""
        self.cells: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "link", "br", "img"):
            self.open.append(tag)
        if tag == "td":
            self.cells.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if "td" in self.open:
            self.cells[-1] += data


def everything(text: str) -> Report:
    """A report that has `text` wherever a text can stand."""
    report = Report(text, about=text)
    report.heading(text).text(text).figures({text: text})
    report.table(
        [text], [(text,), (text.encode(errors="replace"),), ({text: text},), ([text],)], caption=text
    )
    report.bars(text, [text, "b"], [1, 2], text)
    return report.line(text, [1, 2], {text: [1, 2], "b": [2, 1]}, text, text)


def test_nothing_of_a_message_becomes_part_of_the_page() -> None:
    plain, hostile = Page(everything("harmless").html()), Page(everything(HOSTILE).html())
    assert plain.open == hostile.open == []
    assert {*hostile.tags} == {*plain.tags}
    assert "script" not in hostile.tags
    assert "img" not in hostile.tags
    for name, value in hostile.attributes:
        assert not EVENTS.match(name) or (value or "").startswith("#"), (name, value)
    assert hostile.text.count("alert(1)") >= 10, "it is shown, as text"


def test_the_page_needs_no_network_and_forbids_it() -> None:
    page = everything("x").html()
    assert "default-src 'none'" in page
    for link in re.findall(r"url\(([^)]*)\)", page):
        assert link.startswith("#")
    addresses = set(re.findall(r"https?://[^\s\"'<]+", page))
    assert {address.split("/")[2] for address in addresses} <= {
        "www.w3.org",
        "purl.org",
        "creativecommons.org",
    }


def test_drawings_of_one_page_do_not_share_names() -> None:
    report = Report("t")
    for _ in range(2):
        report.line("l", [1, 2], {"a": [1, 2]})
    page = report.html()
    first, second = (set(re.findall(r'url\(#(\w+)\)|href="#(\w+)"', svg)) for svg in page.split("<svg ")[1:])
    assert first
    assert not first & second


@pytest.mark.parametrize(
    "text", ["$x^2$", "$", "订单-€-🚀", "a_b $\\frac{1}{2}$ c", "_hidden", "-- --> <!--"]
)
def test_a_name_is_no_formula(text: str) -> None:
    page = Page(
        Report("t").bars("b", [text, "other"], [1, 2]).line("l", [1, 2], {text: [1, 2], "o": [1, 1]}).html()
    )
    assert page.text.replace("\u200b", "").count(text) >= 2


def test_what_cannot_be_seen_is_made_visible() -> None:
    page = everything("a\x00b\x1bc\u202ed\ud800e\x9bf").html()
    page.encode()
    for bad in "\x00\x1b\u202e\ud800\x9b":
        assert bad not in page
    assert "a\u2400b\u241bc\ufffdd\ufffde\ufffdf" in Page(page).text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "\u2013"),
        (True, "yes"),
        (1234567, "1,234,567"),
        (0.000123456, "0.0001235"),
        (1234.56, "1,234.6"),
        (Decimal("2.50"), "2.5"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (b"caf\xc3\xa9 \xff", "café \ufffd"),
        (datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC).astimezone(None), "2026-01-02 03:04:05"),
        (
            datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC).astimezone(None).replace(tzinfo=None),
            "2026-01-02 03:04:05",
        ),
        (datetime.datetime(2026, 1, 2, 3, 4, 5, 6000, datetime.UTC), "2026-01-02 03:04:05.006"),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (datetime.timedelta(seconds=90), "0:01:30"),
        ({"k": "v", "n": 1}, "k=v, n=1"),
        (["a", 2], "a, 2"),
    ],
)
def test_values_as_people_read_them(value: object, text: str) -> None:
    assert Page(Report("t").table(["c"], [(value,)]).html()).cells == [text]


def test_long_cells_and_long_tables_are_cut_and_say_so() -> None:
    page = Page(Report("t").table(["n"], [("x" * 1_000_000,), *[(n,) for n in range(1500)]]).html())
    assert page.cells[0] == "x" * (MOST_CHARACTERS - 1) + "…"
    assert len(page.cells) == MOST_ROWS
    assert f"{1501 - MOST_ROWS:,} more rows are not shown." in page.text


def test_many_bars_and_many_lines_are_cut_and_say_so() -> None:
    report = Report("t").bars("b", [f"bar{n}." for n in range(50)], range(50))
    report.line("l", [1], {f"line{n}.": [n] for n in range(30)})
    page = Page(report.html())
    assert f"{50 - MOST_BARS} more are not drawn." in page.text
    assert "bar0." in page.text
    assert "bar49." not in page.text
    assert "6 smaller ones are not drawn." in page.text
    assert "line29." in page.text
    assert "line5." not in page.text


def test_nothing_to_show() -> None:
    page = Page(
        Report("t").table(["a"], []).bars("b", [], []).line("l", [], {}).bars("c", ["x"], [None]).html()
    )
    assert page.text.count("Nothing") == 3


def test_lines_over_time_with_gaps() -> None:
    times = [datetime.datetime(2026, 1, 1, hour) for hour in range(4)]
    page = Report("t").line("lag", times, {"g": [1, None, 3, 4]}, "messages").html()
    assert "messages" in Page(page).text


def test_a_report_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    target = tmp_path / "new" / "r.html"
    assert Report("first").write(target) == target
    assert "first" in target.read_text()
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(target.stat().st_mode) == 0o666 & ~umask
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        Report("second").write(target)
    assert "first" in target.read_text()
    assert [path.name for path in target.parent.iterdir()] == ["r.html"]


@pytest.mark.parametrize("missing", ["jinja2", "matplotlib"])
def test_what_is_missing_is_said(missing: str) -> None:
    program = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "from orbitmq.spark.jobs.report import Report, ReportUnavailable\n"
        "try: Report('t')\n"
        "except ReportUnavailable as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert "orbitmq[jobs]" in done.stdout, done.stderr
    assert missing in done.stdout
