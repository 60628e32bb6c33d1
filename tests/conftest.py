"""Fixtures and options for every test: brokers to talk to, and a loud word about what could not run."""

from __future__ import annotations

import gc
import logging
import os
import shlex
import shutil
import signal
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Literal

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler.loadfile import LoadFileScheduling

from orbitmq.compiled import stale_modules
from tests import telling
from tests.kit import class_archives, late_sockets
from tests.needs import need

if TYPE_CHECKING:
    from tests.peers.apache import Apache
    from tests.peers.orbitmq_process import OrbitMQ


SPARK = "tests/spark/"
OWN_DRIVERS = frozenset(
    f"{SPARK}test_{name}.py"
    for name in (
        *("archive_kills", "cluster", "examples", "guide"),
        *("memory", "sink_brokers", "sink_once", "sink_stream"),
    )
)
"""Tests that start Spark themselves, if at all, and not the session that all others of it share."""
IMAGE = "tests/peers/test_container.py"

# No deadlines: a busy machine is no bug. The same examples each time, others with ORBITMQ_EXPLORE=1.
# ORBITMQ_EXAMPLES is their number where a test does not say it.
settings.register_profile(
    "orbitmq",
    deadline=None,
    max_examples=int(os.environ.get("ORBITMQ_EXAMPLES", "100")),
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=os.environ.get("ORBITMQ_EXPLORE") != "1",
)
settings.load_profile("orbitmq")

os.environ.pop("NAMESRV_ADDR", None)  # the developer's own cluster is no test's
os.environ.setdefault(
    "SPARK_SUBMIT_OPTS",
    shlex.join([*class_archives.QUICK_START, *class_archives.flags(class_archives.SPARK)]),
)

SOON_ASKED = {
    "enablePropertyFilter": "true",
    "recallMessageEnable": "true",
    "transactionTimeOut": 3000,
    "transactionCheckInterval": 3000,
}
"""Options of both brokers that tests of clients need: producers are asked about their transactions after
seconds, not after half a minute."""

LOGGERS = [logging.getLogger(name) for name in ("", "orbitmq", "orbitmq.client", "uvicorn.error")]
"""Loggers that commands and servers set up for their whole process: the root logger, and those below it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of this project's own."""
    parser.addoption(
        "--nightly",
        action="store_true",
        help="the tests marked nightly as well, which take too long for every change",
    )
    parser.addoption(
        "--late-sockets",
        type=int,
        metavar="SEED",
        help="event loops see sockets late and in random order, as on a busy machine",
    )
    parser.addoption(
        "--lateness",
        type=float,
        default=1.0,
        metavar="FACTOR",
        help="the times of --late-sockets are so many times as long",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Brings the report of what is told at the end, and second tries."""
    config.pluginmanager.register(telling, "telling")
    seed = config.getoption("--late-sockets")
    if seed is not None:
        late_sockets.install(seed, config.getoption("--lateness"))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell that starts us in the background has all our processes ignore Ctrl-C, which some tests send.
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionstart() -> None:
    """Stops at once where compiled modules would hide what their sources say."""
    stale = stale_modules()
    if stale:
        names = ", ".join(path.name for path in stale)
        raise pytest.UsageError(f"compiled before their source was last changed: {names}. Run `make setup`.")


def needs_session(nodeid: str) -> bool:
    """True if a test needs the Spark session of its process."""
    return nodeid.startswith(SPARK) and nodeid.partition("::")[0] not in OWN_DRIVERS


class ByFile(LoadFileScheduling):  # type: ignore[misc]
    """Of several processes that share the tests, one has all of a file, and one all with a Spark session."""

    def _split_scope(self, nodeid: str) -> str:
        return SPARK if needs_session(nodeid) else str(super()._split_scope(nodeid))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests that take longest come first: what one process has to do alone, and what compiles at
    leisure."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()) and not needs_session(item.nodeid):
            raise pytest.UsageError(
                f"{item.nodeid} needs the session: it is no test with a driver of its own"
            )
    items.sort(key=lambda item: (not needs_session(item.nodeid), not item.nodeid.startswith(IMAGE)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByFile:
    """Asked only where there are several processes."""
    return ByFile(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Nothing that is collected is garbage: to look for some takes a third of the time.

    Nor does it become garbage while tests run: to look through it again and again takes a tenth of theirs.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Takes back the handlers and levels that a command has set for its process, which is that of the tests.

    Its handler writes to a stream that the test has closed: each later line of the log would be an error.
    """
    before = [(logger, logger.level, list(logger.handlers)) for logger in LOGGERS]
    yield
    for logger, level, handlers in before:
        logger.handlers[:] = handlers
        if logger.level != level:
            logger.setLevel(level)


def scope_of_apache(fixture_name: str, config: pytest.Config) -> Literal["session", "module"]:
    """A module by day: few have tests that ask, and an idle Apache takes a tenth of a core."""
    return "session" if config.getoption("--nightly") else "module"


@pytest.fixture(scope=scope_of_apache)
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apache]:
    """Apache RocketMQ 5.4.0 with an empty store, started for the first test that asks and shared by others.

    `.namesrv` and `.broker` are its addresses. Topics and groups must be the test's own.
    """
    from tests.peers.apache import Apache

    need("java", "mvn")
    store = tmp_path_factory.mktemp("apache") / "store"
    server = Apache.start(store, SOON_ASKED)
    yield server
    server.kill()  # its store goes: an orderly stop takes Apache up to 20 s
    shutil.rmtree(store, ignore_errors=True)
    shutil.rmtree(server.home, ignore_errors=True)


@pytest.fixture(scope="session")
def orbitmq_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OrbitMQ]:
    """`orbitmq standalone` as a process of its own with an empty store, shared by all that ask."""
    from tests.peers.orbitmq_process import OrbitMQ

    server = OrbitMQ.start(tmp_path_factory.mktemp("orbitmq") / "store", SOON_ASKED)
    yield server
    server.stop()


@pytest.fixture(scope=scope_of_apache, params=["orbitmq", pytest.param("apache", marks=pytest.mark.nightly)])
def cluster(request: pytest.FixtureRequest) -> OrbitMQ | Apache:
    """Each test once against OrbitMQ and at night against Apache's broker: `.name`, `.namesrv`, `.broker`.

    The brokers are shared: topics and groups must be the test's own. A test with `BOTH_BROKERS` has both in
    every run.
    """
    fixture = "apache" if request.param == "apache" else "orbitmq_server"
    server: OrbitMQ | Apache = request.getfixturevalue(fixture)
    return server
