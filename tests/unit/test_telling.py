"""The report at the end of a test run, and the findings that make it fail; runs within the run."""

from pathlib import Path

import pytest

from tests import telling
from tests.needs import EXCUSED, MISSING, NEEDS, REQUIRED, excuse
from tests.telling import REPORT

pytest_plugins = ["pytester"]

FLAKY = """
import pytest
tried = []

@pytest.mark.parametrize("number", range(COUNT))
@pytest.mark.parametrize("cluster", ["KIND"])
def test_fails_at_first(cluster, number):
    tried.append(number)
    assert tried.count(number) > 1, "at first"
"""
OPTIONS = ("-p", "pytest_rerunfailures", "-p", "tests.telling", "-p", "no:cacheprovider")


@pytest.fixture(autouse=True)
def few_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run would import them all anew."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def run(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    files: dict[str, str],
    required: str = "0",
    apart: bool = True,
) -> tuple[pytest.RunResult, str]:
    """The result of a run of files of tests, and its report.

    `apart`: in a process of its own, which files named as real tests need: this one may have imported those.
    """
    monkeypatch.setenv(REQUIRED, required)
    report = pytester.path / "report.txt"
    monkeypatch.setenv(REPORT, str(report))
    for path, text in files.items():
        file = pytester.path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    if apart:
        # The other process starts elsewhere and finds this tree's plugin by its path.
        monkeypatch.setenv("PYTHONPATH", str(Path(telling.__file__).parents[1]))
    runpytest = pytester.runpytest_subprocess if apart else pytester.runpytest_inprocess
    result = runpytest(*OPTIONS, "--import-mode=importlib", "tests")
    return result, report.read_text() if report.exists() else ""


AGAIN = {
    "tests/peers/test_metrics.py": "orbitmq",
    "tests/client/test_requests.py": "apache",
    "tests/console/test_pages.py": "orbitmq",
    "tests/upgrades/test_two_versions.py": "orbitmq",
    "tests/spark/test_batch_read.py": "orbitmq",
    "tests/unit/outbox/test_locking.py": "mariadb",
}
AT_ONCE = {
    "tests/client/test_choosing.py": "orbitmq",
    "tests/client/test_sending.py": "apache",
    "tests/client/test_transactions.py": "apache",
    "tests/peers/test_timers.py": "apache",
    "tests/spark/test_archive.py": "apache",
    "tests/spark/test_lag_kills.py": "apache",
    "tests/fault/test_blind_cluster.py": "etcd",
    "tests/docs/test_readme.py": "orbitmq",
    "tests/unit/server/test_turn.py": "orbitmq",
    "tests/unit/cli/test_at_a_terminal.py": "orbitmq",
}


def test_only_foreign_processes_have_a_second_try(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        path: FLAKY.replace("COUNT", "1").replace("KIND", kind) for path, kind in (AGAIN | AT_ONCE).items()
    }
    result, report = run(pytester, monkeypatch, files)
    result.assert_outcomes(passed=len(AGAIN), failed=len(AT_ONCE))
    told = [line for line in report.splitlines() if line.startswith("failed at first: ")]
    assert told == [
        f"failed at first: {path}::test_fails_at_first[{AGAIN[path]}-0]" for path in sorted(AGAIN)
    ]
    assert report.count("AssertionError: at first") == len(AGAIN)


def test_a_test_that_says_that_it_needs_java_has_a_second_try(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(NEEDS, "java", ("Java", lambda: True))
    text = FLAKY.replace("COUNT", "1").replace("KIND", "orbitmq")
    text = text.replace("@pytest", "@pytest.mark.needs('java')\n@pytest", 1)
    assert run(pytester, monkeypatch, {"tests/delay/test_kafka.py": text})[0].ret == pytest.ExitCode.OK


@pytest.mark.parametrize(("count", "code"), [(10, pytest.ExitCode.OK), (11, pytest.ExitCode.TESTS_FAILED)])
def test_more_than_ten_first_failures_fail_the_run(
    count: int, code: pytest.ExitCode, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = FLAKY.replace("COUNT", str(count)).replace("KIND", "orbitmq")
    result, report = run(pytester, monkeypatch, {"tests/peers/test_metrics.py": text})
    result.assert_outcomes(passed=count)
    assert result.ret == code
    assert report.count("failed at first: ") == count
    assert ("11 FAILED AT FIRST" in report) is (count == 11)


SKIPPED = """
import pytest

@pytest.mark.needs("nothing-like-it")
def test_that_needs_something(): pass

def test_that_skips_itself(): pytest.skip("no such luck")

def test_that_is_excused(): pytest.skip("interpreted, all take the general path")

@pytest.mark.xfail
def test_that_is_known_to_fail(): assert False

def test_that_runs(): pass
"""


@pytest.mark.parametrize("required", ["0", "1"])
def test_what_is_not_run_fails_where_it_has_to_run(
    required: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(NEEDS, "nothing-like-it", ("a thing", lambda: False))
    result, report = run(pytester, monkeypatch, {"tests/unit/test_it.py": SKIPPED}, required, apart=False)
    if required == "1":
        result.assert_outcomes(passed=1, skipped=1, errors=1, failed=1, xfailed=1)
        assert f"{MISSING}a thing; with {REQUIRED}=1 that is a failure" in result.stdout.str()
    else:
        result.assert_outcomes(passed=1, skipped=3, xfailed=1)
        result.stdout.fnmatch_lines(["NOT RUN for want of a thing: 1"])
    why = EXCUSED["^interpreted"]
    assert f"not run: 1 (interpreted, all take the general path): {why}" in report


def test_a_file_that_is_skipped_fails_where_it_has_to_run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "import pytest\npytest.importorskip('no_such_module')\ndef test_it(): pass\n"
    result, _ = run(pytester, monkeypatch, {"tests/unit/test_it.py": text}, "1")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert "No module named 'no_such_module'" in result.stdout.str()


def test_every_excuse_has_its_reason_and_covers_something() -> None:
    tests = Path(__file__).parents[1]
    texts = "\n".join(path.read_text() for path in tests.rglob("*.py") if path != Path(__file__))
    for pattern, why in EXCUSED.items():
        assert why
        assert len(texts.split(pattern.lstrip("^").split(" ")[0].split("\\")[0])) > 2, pattern
    assert excuse("interpreted, every send takes the general path")
    assert excuse(MISSING + NEEDS["container"][0])
    assert excuse(MISSING + NEEDS["openssl"][0]) is None
