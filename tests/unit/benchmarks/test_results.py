import io
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.report import write_report
from benchmarks.results import Results, Run
from benchmarks.rows import QUICK, ROWS, Sizes, choose
from benchmarks.table import show

SETTINGS = {"rows": ["sync1-128"], "sizes": QUICK.as_dict()}
FACTS = {
    "cores": 2,
    "cpu": "a CPU",
    "kernel": "6.1",
    "java": "17",
    "python": "3.11",
    "commit": "abc",
    "compiled": True,
}


def figures(rate: float, errors: int = 0) -> dict[str, object]:
    return {
        "rate": rate,
        "cpu_us": 1e6 / rate,
        "memory_bytes": 10_000_000,
        "disk_bytes": 250.0,
        "p50_us": 1000.0,
        "errors": errors,
    }


def begin(path: Path, **changed: object) -> tuple[Results, Run, bool]:
    book = Results(path)
    run, goes_on = book.open_run(SETTINGS | changed, FACTS, fresh=False)
    return book, run, goes_on


def three_rounds(path: Path) -> tuple[Results, Run]:
    book, run, _ = begin(path)
    for number, (ours, theirs) in enumerate([(100, 50), (300, 100), (200, 80)]):
        book.add_round(
            run, "sync1-128", number, {"orbitmq": figures(ours), "apache": figures(theirs, errors=2)}
        )
    book.add_start(run, "orbitmq", 0.5, 30_000_000)
    book.add_start(run, "apache", 5.0, 900_000_000)
    for broker, seconds in (("orbitmq", 1.0), ("apache", 4.0)):
        run.rounds.setdefault(("recovery", 0), {})[broker] = {
            "rate": None,
            "seconds": seconds,
            "memory_bytes": 1,
            "errors": 0,
        }
    book.add_round(run, "recovery", 0, run.rounds["recovery", 0])
    return book, run


def test_an_interrupted_run_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    book, run, goes_on = begin(path)
    assert not goes_on
    book.add_start(run, "orbitmq", 0.3, 1)
    book.add_round(run, "sync1-128", 0, {"orbitmq": figures(100), "apache": figures(50)})
    path.write_text(path.read_text() + '{"kind":"round","run"')  # the line that was being written

    book, again, goes_on = begin(path)
    assert goes_on
    assert again.id == run.id
    assert again.rounds == run.rounds
    assert (again.starts, again.idle_bytes) == ({"orbitmq": [0.3]}, {"orbitmq": [1]})
    book.add_round(again, "sync1-128", 1, {"orbitmq": figures(100), "apache": figures(50)})
    assert len(begin(path)[1].rounds) == 2


def test_other_settings_or_a_finished_run_begin_anew(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    book, run, _ = begin(path)
    assert begin(path, rows=["sync64-128"])[2] is False
    path.unlink()
    book, run, _ = begin(path)
    book.close_run(run)
    assert begin(path)[2] is False
    assert Results(path).open_run(SETTINGS, FACTS, fresh=True)[1] is False


def test_the_table_shows_medians_and_ratios(tmp_path: Path) -> None:
    _, run = three_rounds(tmp_path / "results.jsonl")
    console = Console(width=140, record=True, file=io.StringIO())
    show(console, run)
    text = console.export_text()
    assert "sync send, 1 thread, 128 B" in text
    assert "2.50 x" in text  # of 2.0, 3.0 and 2.5
    assert "0 / 6" in text
    assert "0.50 s against 5.00 s (0.10 x)" in text
    assert "1.00 s against 4.00 s (0.25 x)" in text


def test_the_page_gets_the_newest_figures_of_every_row_between_its_markers(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    text = "before\n{0}begin -->\nold\n{0}end -->\nafter\n".format("<!-- benchmark compiled: ")
    page.write_text(text)
    book, run = three_rounds(tmp_path / "results.jsonl")
    book.close_run(run)
    _, later, _ = begin(tmp_path / "results.jsonl", rows=["sync16-128"])
    book.add_round(later, "sync16-128", 0, {"orbitmq": figures(999), "apache": figures(333)})
    book.add_round(later, "sync64-128", 0, {"orbitmq": figures(100), "apache": figures(100)})

    assert write_report(list(book.read()), page) == [page, tmp_path / "performance-cpu.svg"]
    written = page.read_text()
    assert written.startswith("before\n")
    assert written.endswith("after\n")
    assert "old" not in written
    assert "| sync send, 1 thread, 128 B | 3 | 200 | 80 | 2.50 x | ≥ 2 |" in written
    assert "| sync send, 16 threads, 128 B | 1 | 999 | 333 | 3.00 x | ≥ 2.2 |" in written
    assert "| sync send, 64 threads, 128 B | 1 | 100 | 100 | 1.00 x | ≥ 2.5, missed |" in written
    assert "after kill -9: 1.00 s against 4.00 s" in written
    assert "</svg>" in (tmp_path / "performance-cpu.svg").read_text()


def test_a_page_without_markers_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    page.write_text("mine")
    book, _ = three_rounds(tmp_path / "results.jsonl")
    with pytest.raises(ValueError, match="benchmark compiled: begin"):
        write_report(list(book.read()), page)
    assert page.read_text() == "mine"


def test_rows_are_chosen_by_how_their_names_begin() -> None:
    assert [row.name for row in choose(["sync64"])] == ["sync64-128", "sync64-1024"]
    assert choose([]) == ROWS
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert {row.name for row in choose(["core"])} < {row.name for row in ROWS}
    assert len(choose(["sync1-,push-128"])) == 3


def test_rows_with_a_goal_get_more_rounds_and_large_messages_are_fewer() -> None:
    sizes = Sizes()
    assert {sizes.rounds_of(row) for row in choose(["core"])} == {sizes.rounds}
    (largest,) = choose([f"push-{1 << 20}"])
    assert sizes.fill * 1024 - largest.size < sizes.count_of(largest) * largest.size <= sizes.fill * 1024
    assert sizes.rounds_of(largest) == sizes.other_rounds
