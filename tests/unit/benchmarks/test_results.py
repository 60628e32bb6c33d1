import io
from pathlib import Path

from rich.console import Console

from benchmarks.results import Results, Run
from benchmarks.rows import QUICK, ROWS, choose
from benchmarks.table import show

SETTINGS = {"rows": ["sync1-128"], "sizes": QUICK.as_dict()}
FACTS = {"cores": 2}


def figures(rate: float, errors: int = 0) -> dict[str, object]:
    return {"rate": rate, "cpu_us": 1e6 / rate, "memory_bytes": 10_000_000, "errors": errors}


def begin(path: Path, **changed: object) -> tuple[Results, Run, bool]:
    book = Results(path)
    run, goes_on = book.open_run(SETTINGS | changed, FACTS, fresh=False)
    return book, run, goes_on


def test_an_interrupted_run_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    book, run, goes_on = begin(path)
    assert not goes_on
    book.add_start(run, "orbitmq", 0.3)
    book.add_round(run, "sync1-128", 0, {"orbitmq": figures(100), "apache": figures(50)})
    path.write_text(path.read_text() + '{"kind":"round","run"')  # the line that was being written

    book, again, goes_on = begin(path)
    assert goes_on
    assert again.id == run.id
    assert again.rounds == run.rounds
    assert again.starts == {"orbitmq": [0.3]}
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
    book, run, _ = begin(tmp_path / "results.jsonl")
    for number, (ours, theirs) in enumerate([(100, 50), (300, 100), (200, 80)]):
        book.add_round(
            run, "sync1-128", number, {"orbitmq": figures(ours), "apache": figures(theirs, errors=2)}
        )
    book.add_start(run, "orbitmq", 0.5)
    book.add_start(run, "apache", 5.0)
    console = Console(width=140, record=True, file=io.StringIO())
    show(console, run)
    text = console.export_text()
    assert "sync send, 1 thread, 128 B" in text
    assert "2.50 x" in text  # 200 ÷ 80
    assert "0/6" in text
    assert "ratio 0.10 x" in text


def test_rows_are_chosen_by_how_their_names_begin() -> None:
    assert [row.name for row in choose(["sync64"])] == ["sync64-128", "sync64-1024"]
    assert choose([]) == ROWS
    assert len({row.name for row in ROWS}) == len(ROWS) == 12
