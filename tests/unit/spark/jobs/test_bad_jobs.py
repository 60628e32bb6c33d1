"""Mistakes that jobs tell of in a line, before Spark is started and before anything is written."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import pyarrow.parquet as pq

from orbitmq.cli.app import run
from orbitmq.spark.jobs.availability import LOG_SCHEMA
from orbitmq.spark.jobs.dedup.options import DedupOptions
from orbitmq.spark.jobs.dedup.ownership import claim
from orbitmq.spark.jobs.job import JobFailed, JobSetup
from orbitmq.spark.jobs.lag import SAMPLE_SCHEMA
from orbitmq.spark.jobs.sampling import SampleTable
from orbitmq.spark.lake.storage import LakeLocation
from orbitmq.sync import Message, Producer
from orbitmq.testing import LocalBroker
from tests.peers.object_store import KEYS, local_s3


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalBroker]:
    """A broker with the topics `orders` and `other`."""
    with LocalBroker(timeout_seconds=120) as server:
        with Producer("shop", server.namesrv) as producer:
            for topic in ("orders", "other"):
                producer.send(Message(topic, "1", keys="k"))
        yield server


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with things in it that jobs come across; a session there is not."""

    def session(setup: JobSetup, app_name: str) -> None:
        raise AssertionError(f"{app_name} started Spark")

    monkeypatch.setattr(JobSetup, "session", session)
    monkeypatch.chdir(tmp_path)
    for name in ("mine/a.txt", "lake/_manifests/1.json", "once/_spark_metadata/0", "c/offsets/0", "file"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    for name, text in (("damaged", "{half"), ("listed", "[]")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "dedup.json").write_text(text)
    for name in ("plain/day=2026-01-31/a.parquet", "traced/records/_spark_metadata/0"):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.touch()
    (tmp_path / "unbegun/offsets").mkdir(parents=True)
    for name, schema in (("probes", LOG_SCHEMA), ("lags", SAMPLE_SCHEMA)):
        (tmp_path / name).mkdir()
        pq.write_table(schema.empty_table(), tmp_path / name / "1-1-1.parquet")
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn/1-1-1.parquet").write_bytes(b"PAR1 and no more")
    (tmp_path / "empty").mkdir()
    return tmp_path


def there(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}


DEDUP = "dedup -t orders --to-lake new --checkpoint fresh "


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("dedup -t ordes --to-lake new --checkpoint fresh", 1, "topic ordes does not exist"),
        ("dedup -t orders --to-topic othr --checkpoint fresh", 1, "topic othr does not exist"),
        ("dedup -t 'or ders' --to-lake new --checkpoint fresh", 1, "is no topic name"),
        ("dedup -t orders --to-topic orders --checkpoint fresh", 1, "which it reads"),
        ("dedup -t ordes --to-lake new --dry-run", 1, "topic ordes does not exist"),
        (f"{DEDUP} --key kesy", 1, "'kesy' is no key: keys, msgId"),
        (f"{DEDUP} --key json:id", 1, "begins with $"),
        (f"{DEDUP} --window 5x", 2, "is no duration"),
        (f"{DEDUP} --window 999999999999d", 2, "more than ten years"),
        (f"{DEDUP} --follow -1", 2, "--follow"),
        ("dedup -t orders --to-lake file --checkpoint fresh", 1, "file is no folder"),
        ("dedup -t orders --to-lake mine --checkpoint fresh", 1, "mine holds other things, as a.txt"),
        ("dedup -t orders --to-lake lake --checkpoint fresh", 1, "is a lake of `orbitmq job archive`"),
        ("dedup -t orders --to-lake once --checkpoint fresh", 1, "written with another checkpoint"),
        ("dedup -t orders --to-lake plain --checkpoint fresh", 1, "holds other things, as day=2026-01-31"),
        ("dedup -t orders --to-lake new --checkpoint new/", 1, "cannot be the lake and the checkpoint"),
        ("dedup -t orders --to-lake new --checkpoint mine", 1, "not one of this job"),
        ("dedup -t orders --to-lake new --checkpoint c", 1, "not one of this job"),
        ("dedup -t orders --to-lake new --checkpoint damaged", 1, "dedup.json is damaged"),
        ("dedup -t orders --to-lake new --checkpoint listed", 1, "dedup.json is damaged"),
        ("dedup -t orders --to-lake new --checkpoint nowhere://b/c", 1, "nowhere://b/c: Protocol not"),
        ("dedup -t orders --to-lake new --checkpoint file/c", 5, "file/c"),
        ("dedup -t orders --audit --to-topic other", 2, "--audit only reports"),
        ("dedup -t ordes --audit", 1, "topic ordes does not exist"),
        ("dedup -t orders --audit --trace traces", 1, "topic traces does not exist"),
        ("dedup -t orders --audit --trace empty", 1, "empty is no folder of `orbitmq job trace"),
        ("dedup -t orders --audit --trace no/where", 1, "no/where is no folder of `orbitmq job trace"),
        ("dedup -t orders --audit --report file/x.html", 2, "file/x.html cannot be written"),
        ("trace", 1, "topic RMQ_SYS_TRACE_TOPIC does not exist"),
        ("trace --trace-topic traces --tables new", 1, "topic traces does not exist"),
        ("trace --trace-topic orders --tables mine", 1, "mine holds other things, as a.txt"),
        ("trace --trace-topic orders --tables traced", 1, "written with another checkpoint"),
        ("trace --trace-topic orders --tables traced --checkpoint unbegun", 1, "with another checkpoint"),
        ("trace --trace-topic orders --tables file/new", 1, "file is no folder"),
        ("trace --trace-topic orders --tables file", 2, "file"),
        ("trace --trace-topic orders --checkpoint fresh", 2, "--checkpoint goes with --tables"),
        (
            "trace --trace-topic orders --since 2026-01-02T00:00 --until 2026-01-01T00:00",
            1,
            "nothing between",
        ),
        ("trace --trace-topic orders --since someday", 2, "'someday' is no time"),
        ("trace --trace-topic orders --slow-ms -1", 2, "--slow-ms"),
        ("lag --table new --samples 0", 1, "new holds no samples"),
        ("lag --table empty --samples 0", 1, "empty holds no samples"),
        ("lag --table probes --samples 0", 1, "samples of another job"),
        ("lag --table mine --samples 1", 1, "mine holds other things, as a.txt"),
        ("lag --table torn --samples 1", 1, "1-1-1.parquet is damaged"),
        ("lag --table torn --samples 0", 1, "1-1-1.parquet is damaged"),
        ("lag --table file/new --samples 1", 5, "file/new"),
        ("lag --table empty --samples 1 --group biling", 1, "no broker knows how far biling is"),
        ("lag --table new --samples 1 --group biling --dry-run", 1, "no broker knows how far biling is"),
        ("lag --table new --every -1", 2, "--every"),
        ("availability --log new --samples 0", 1, "new holds no samples"),
        ("availability --log lags --samples 1", 1, "samples of another job"),
        ("availability --log empty --samples 1 --topic ordes", 1, "topic ordes does not exist"),
        ("availability --log new --samples 1 --probe-topic 'a b'", 1, "illegal characters"),
        ("availability --trace traces", 1, "topic traces does not exist"),
        ("availability --trace mine", 1, "mine is no folder of `orbitmq job trace"),
        ("availability --trace other --dry-run", 2, "go with --log"),
        ("availability --trace other --max-gap -1", 2, "--max-gap"),
        ("search -t orders --text x --since 2026-01-02T00:00 --until 2026-01-01T00:00", 1, "nothing between"),
    ],
)
def test_one_line_and_nothing_written(
    cluster: LocalBroker,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    line: str,
    code: int,
    words: str,
) -> None:
    before = there(folder)
    name, *arguments = shlex.split(line)
    assert run(["job", name, "-q", "-n", cluster.namesrv, *arguments]) == code
    told = capsys.readouterr()
    assert words in told.err.splitlines()[-1]
    assert told.out == ""
    assert there(folder) == before


@pytest.mark.parametrize(
    "line",
    [
        DEDUP,
        "dedup -t orders --audit",
        "trace",
        "trace --tables new",
        "lag --table empty --samples 1",
        "lag --table new --samples 1 --dry-run",
        "availability --log new --dry-run",
        "availability --trace traces",
        "search -t orders --key k",
    ],
)
def test_a_cluster_that_does_not_answer(folder: Path, capsys: pytest.CaptureFixture[str], line: str) -> None:
    before = there(folder)
    name, *arguments = shlex.split(line)
    assert run(["job", name, "-q", "-n", "127.0.0.1:1", *arguments]) == 1  # nothing listens there
    assert "127.0.0.1:1" in capsys.readouterr().err.splitlines()[-1]
    assert there(folder) == before


def test_what_is_no_mistake_goes_on_to_spark(cluster: LocalBroker, folder: Path) -> None:
    def goes_on(line: str) -> None:
        name, *arguments = shlex.split(line)
        with pytest.raises(AssertionError, match=f"{name} started Spark"):
            run(["job", name, "-q", "-n", cluster.namesrv, *arguments])

    def batch(*numbered: str) -> None:
        for each in numbered:
            (folder / each).mkdir(parents=True, exist_ok=True)
            (folder / each / "0").write_text('v1\n{}\n{"orders": {}}')

    (folder / "killed/_spark_metadata").mkdir(parents=True)
    goes_on("dedup -t orders --to-lake killed --checkpoint fresh")
    within = "dedup -t orders --to-lake once-more --checkpoint once-more/state/one"
    goes_on(within)
    batch("once-more/_spark_metadata", "once-more/day=2026-01-31", "once-more/state/one/offsets")
    goes_on(within)
    (folder / "reported").mkdir()
    goes_on("trace --trace-topic orders --tables reported --report reported/trace.html")
    (folder / "reported/trace.html").touch()
    batch(
        "reported/records/_spark_metadata",
        *(f"reported/checkpoint/{name}" for name in ("offsets", "commits")),
    )
    goes_on("trace --trace-topic orders --tables reported --report reported/trace.html")
    # Whoever has begun a table needs no broker to be told from it.
    goes_on(f"trace --trace-topic gone --tables reported --checkpoint file:{folder}/reported/checkpoint")


def test_a_topic_that_any_earlier_run_has_tried_is_no_mistake(cluster: LocalBroker, folder: Path) -> None:
    for topic in ("gone", "orders"):
        table = SampleTable(folder / "probes", LOG_SCHEMA)
        table.add([{"topic": topic, "operation": "route"}])
        table.flush()
    line = "availability -q --log probes --samples 1 --topic gone"
    assert run(["job", *line.split(), "-n", cluster.namesrv]) == 0


def test_a_checkpoint_of_dedup_in_an_object_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job's own note; all else in there is Spark's, which needs a package of its own for S3."""
    with local_s3() as address:
        # Errors that the driver finds by itself.
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEYS["key"])
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEYS["secret"])
        url = "s3://dedup-test/state"
        checkpoint = LakeLocation(url).open()
        setup = JobSetup(checkpoint=url)
        write_id = claim(checkpoint, DedupOptions(("orders",), setup, to_lake="lake"))
        assert claim(LakeLocation(url).open(), DedupOptions(("orders",), setup, to_lake="lake")) == write_id
        corrected = DedupOptions(("other",), setup, to_lake="lake")
        write_id = claim(checkpoint, corrected)
        assert checkpoint.names("") == ["dedup.json"]
        checkpoint.create("offsets/0", b"{}")
        assert claim(LakeLocation(url).open(), corrected) == write_id
        with pytest.raises(JobFailed, match=f"{url} is of another job: topics was"):
            claim(checkpoint, DedupOptions(("orders",), setup, to_lake="lake"))
        checkpoint.remove("dedup.json")
        with pytest.raises(JobFailed, match=f"{url} is not one of this job"):
            claim(checkpoint, corrected)
