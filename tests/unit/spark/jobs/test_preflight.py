"""Wrong arguments of jobs are told before Spark starts, and before anything is written."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orbitmq.cli.app import run
from orbitmq.spark.jobs.job import JobSetup
from orbitmq.testing.local_broker import LocalBroker


@pytest.fixture(autouse=True)
def no_spark(rocketmq: LocalBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def session(self: JobSetup, app_name: str) -> Iterator[None]:
        raise AssertionError("Spark was started")
        yield

    monkeypatch.setattr(JobSetup, "session", session)
    monkeypatch.setenv("NAMESRV_ADDR", rocketmq.namesrv)
    assert run(["admin", "topic", "create", "preflight"]) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["archive", "--lake", "LAKE", "--topic", "nosuch"], "topic nosuch does not exist"),
        (["archive", "--lake", "LAKE", "--pattern", "nosuch-.*"], "no topic matches 'nosuch-.*'"),
        (["archive", "--lake", "LAKE", "--store", "LAKE", "--broker-name", "a"], "no store at"),
        (["replay", "--topic", "preflight", "--to", "nosuch"], "topic nosuch does not exist"),
        (["replay", "--topic", "nosuch", "--to", "preflight"], "topic nosuch does not exist"),
        (["replay", "--topic", "a", "--lake", "LAKE", "--to", "preflight"], "holds no lake"),
    ],
)
def test_a_job_for_what_does_not_exist_ends_at_once(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = tmp_path / "lake"
    assert run(["job", *(str(lake) if word == "LAKE" else word for word in arguments)]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert said in line
    assert not lake.exists()
