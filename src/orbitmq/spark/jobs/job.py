"""The base of all jobs: the decorator that makes a command of a function, and the options all jobs share.

    @job("count", examples="orbitmq job count --topic orders")
    @click.option("--topic", required=True)
    def count(setup: JobSetup, ui: JobUi, topic: str) -> Result:
        \"\"\"Count the messages of a topic.\"\"\"
        return run(CountOptions(setup, topic), ui).as_facts()

The command parses flags and shows the result; `run(options, ui)` does the work and can be called from a
notebook, where it uses the session that is there.
"""

from __future__ import annotations

import copy
import functools
import logging
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orbitmq.admin.bodies import FLAG
from orbitmq.admin.output import Result
from orbitmq.flags import namesrv_flag, pairs_of, read_credentials, signing_flags, tls_flags
from orbitmq.net.address import default_namesrv
from orbitmq.protocol.records.compression import DEFAULT_MAX_INFLATED_BYTES
from orbitmq.spark.jobs.failures import JobFailed, as_failure
from orbitmq.spark.jobs.interrupting import handling
from orbitmq.spark.jobs.ui import QUIET, JobUi
from orbitmq.spark.read.connecting import PLAIN, Connecting
from orbitmq.spark.read.values import MAX_INFLATED_BODY_BYTES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["QUIET", "JobFailed", "JobSetup", "JobUi", "job"]


@dataclass(frozen=True, slots=True)
class JobSetup:
    """Options of every job: the cluster, and the place where Spark runs.

    Raises ReportUnavailable where a report is wanted and cannot be made.
    """

    namesrv: str = ""
    """Name servers, `host:port;host:port`; empty: NAMESRV_ADDR, else 127.0.0.1:9876."""
    connecting: Connecting = PLAIN
    master: str | None = None
    """Spark's master; None: this machine, on all its cores."""
    remote: str | None = None
    """A Spark Connect server, `sc://host:port`, in place of a master."""
    max_inflated_body_bytes: int = DEFAULT_MAX_INFLATED_BYTES
    """Maximum size of a body that was compressed, once it is inflated."""
    memory: str = "1g"
    """Heap of the JVM on this machine."""
    conf: tuple[tuple[str, str], ...] = ()
    """Spark settings on top."""
    checkpoint: str | None = None
    dry_run: bool = False
    report: Path | None = None

    def __post_init__(self) -> None:
        if self.report is not None:
            from orbitmq.spark.jobs.report import Report

            Report("")  # fails before the work is done, where it cannot be made after it

    @property
    def source_options(self) -> dict[str, str]:
        """The options with which `format("orbitmq")` reaches the same cluster in the same way."""
        found = {"namesrv": self.namesrv or default_namesrv()}
        who = self.connecting.credentials
        if who is not None:
            found |= {"accessKey": who.access_key, "secretKey": who.secret_key}
            if who.security_token:
                found["securityToken"] = who.security_token
        if self.connecting.tls:
            found["tls"] = "true"
        if self.connecting.tls_ca:
            found["tlsCa"] = self.connecting.tls_ca
        return found

    @property
    def reading_options(self) -> dict[str, str]:
        """The same for a read: with the maximum of inflated bodies."""
        return self.source_options | {"maxInflatedBodyBytes": str(self.max_inflated_body_bytes)}

    @contextmanager
    def session(self, app_name: str) -> Iterator[SparkSession]:
        """The session of this thread if there is one, else one that ends with the block.

        Raises JavaNotFound, JobFailed.
        """
        from pyspark.sql import SparkSession

        active = SparkSession.getActiveSession()
        if active is not None:
            yield active
            return
        spark = self._start(f"orbitmq {app_name}")
        try:
            yield spark
        finally:
            # An impatient second Ctrl-C must not leave half a JVM behind.
            with handling(signal.SIGINT, signal.SIG_IGN):
                spark.stop()

    def _start(self, app_name: str) -> SparkSession:
        from orbitmq.spark.session.sessions import local_session, spark_session

        if self.remote is not None:
            try:
                return spark_session(app_name, remote=self.remote, conf=dict(self.conf))
            except ImportError as error:
                raise JobFailed(
                    f"--remote needs more of PySpark: pip install 'pyspark[connect]' ({error})"
                ) from None
        settings = dict(self.conf)
        quiet = "spark.log.level" not in settings
        if self.master is None or self.master.startswith("local"):
            settings["spark.master"] = self.master or "local[*]"
            own = settings.get("spark.driver.extraJavaOptions", "")
            settings["spark.driver.extraJavaOptions"] = f"{QUICK_START} {own}".strip()
            spark = local_session(
                app_name, cores=os.cpu_count() or 2, memory=self.memory, conf=settings, quiet=quiet
            )
        else:
            settings = {"spark.driver.memory": self.memory, **settings}
            spark = spark_session(app_name, master=self.master, conf=settings, quiet=quiet)
        if quiet:
            _log_no_stacks(spark)
        return spark


def _log_no_stacks(spark: SparkSession) -> None:
    """Has Spark log nothing of failed tasks and queries: the job ends with what they say, in a line."""
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    log4j: Any = spark._jvm.org.apache.logging.log4j  # type: ignore[union-attr]
    for name in _TELL_OF_FAILURES:
        log4j.core.config.Configurator.setLevel(f"org.apache.spark.{name}", log4j.Level.OFF)


_TELL_OF_FAILURES = ("executor.Executor", "scheduler.TaskSetManager", "sql.execution", "util.Utils")

QUICK_START = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
"""Ten times Java's own thresholds for its slower compiler. Of a job with a small input that compiler took a
third of the CPU time; in a long one, all that matters passes these thresholds within seconds as well."""

Body = Callable[..., "Result | None"]


def job(
    name: str,
    *,
    examples: str,
    spark: bool = True,
    cluster: bool = True,
    bodies: bool = True,
    checkpoint: str = "",
    dry_run: str = "",
    report: str = "",
) -> Callable[[Body], click.Command]:
    """Makes the command `orbitmq job NAME` of `function(setup, ui, **its own options)`.

    Its docstring is the help. `spark` gives it the flags that say where Spark runs; a job that no longer
    needs Spark takes them for the sake of scripts, and says that they do nothing. `cluster` gives it the
    flags that name servers and users need, and `bodies` with it the one that limits the bodies that it reads;
    `checkpoint`, `dry_run` and `report` give it the flag of that name, with this text as help: any other flag
    that a job does not heed it does not have. The function's result is shown as a table, or as JSON with
    `--json`.
    """

    def register(function: Body) -> click.Command:
        own = getattr(function, "__click_params__", [])

        @functools.wraps(function)
        def run(as_json: bool, quiet: bool, **values: Any) -> None:
            ui = JobUi(as_json=as_json, quiet=quiet)
            setup = _setup(values, os.environ)
            if setup.report is not None:
                _need_place_for(setup.report)
            # A container that stops a job sends SIGTERM: it ends as by Ctrl-C, with the session stopped.
            with handling(signal.SIGTERM, signal.default_int_handler):
                try:
                    result = function(setup, ui, **values)
                except Exception as error:
                    failure = as_failure(error)
                    if failure is None:
                        raise
                    raise failure from error
            if result is not None:
                ui.show(result)

        flags = [
            *(_SPARK if spark else map(_hidden, _SPARK)),
            *_SHOWING,
            *(_CLUSTER if cluster else ()),
            *(_BODIES if cluster and bodies else ()),
        ]
        for flag, text in (("--checkpoint", checkpoint), ("--dry-run", dry_run), ("--report", report)):
            if text:
                flags.append(_flag(flag, text))
        # click shows them from the last to the first.
        run.__click_params__ = [*reversed(flags), *own]  # type: ignore[attr-defined]
        lines = "".join(f"\n  {line}" for line in examples.strip().splitlines())
        return click.command(name, epilog=f"\b\nExamples:{lines}")(run)

    return register


def _flag(name: str, text: str) -> click.Option:
    if name == "--dry-run":
        return click.Option([name], is_flag=True, help=text)
    kind = click.Path(path_type=Path, dir_okay=False) if name == "--report" else None
    return click.Option([name], metavar="FILE.html" if kind else "FOLDER", type=kind, help=text)


def _hidden(flag: click.Option) -> click.Option:
    unseen = copy.copy(flag)
    unseen.hidden = True
    unseen.deprecated = "The job runs without Spark."
    return unseen


_SPARK = (
    click.Option(["--master"], metavar="URL", help="Spark's master. [default: local[*]]"),
    click.Option(
        ["--remote"], metavar="sc://HOST:PORT", help="Spark Connect server to use instead of a master."
    ),
    click.Option(["--memory"], default="1g", help="Heap of the JVM on this machine."),
    click.Option(["--conf"], metavar="NAME=VALUE", multiple=True, help="A Spark setting. Repeatable."),
)
_SHOWING = (
    click.Option(["--json", "as_json"], is_flag=True, help="Print JSON."),
    click.Option(["-q", "--quiet"], is_flag=True, help="Show no progress."),
)
_CLUSTER = (
    namesrv_flag(),
    *signing_flags(),
    *tls_flags("Use TLS, and trust these certificates (PEM). Each worker needs the file."),
)

_BODIES = (
    click.Option(
        [FLAG, "max_inflated_body_bytes"],
        metavar="BYTES",
        type=click.IntRange(1, MAX_INFLATED_BODY_BYTES),
        default=DEFAULT_MAX_INFLATED_BYTES,
        help="Maximum size of a body that was compressed, once it is inflated. A job that reads a larger one "
        "fails.",
    ),
)


def _setup(values: dict[str, Any], environment: Mapping[str, str]) -> JobSetup:
    """Takes what is common out of `values`. Raises click.UsageError."""
    conf = pairs_of(values.pop("conf"), "--conf")
    if values.get("master") and values.get("remote"):
        raise click.UsageError("--master and --remote are two places: give one of them")
    connecting = PLAIN
    if "access_key" in values:
        given = {name: values.pop(name) for name in ("access_key", "secret_file", "tls", "tls_ca")}
        credentials = read_credentials(given, environment)
        connecting = Connecting(credentials, given["tls"] or bool(given["tls_ca"]), given["tls_ca"])
    common = (
        "namesrv",
        "max_inflated_body_bytes",
        "master",
        "remote",
        "memory",
        "checkpoint",
        "dry_run",
        "report",
    )
    return JobSetup(
        connecting=connecting,
        conf=tuple((key.strip(), value.strip()) for key, value in conf),
        **{key: values.pop(key) for key in common if key in values},
    )


def _need_place_for(page: Path) -> None:
    """Raises click.BadParameter where a page cannot be written: the work would be for nothing."""
    above = next(folder for folder in page.absolute().parents if folder.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise click.BadParameter(
            f"{page} cannot be written: {above} is no folder to write to", param_hint="--report"
        )
