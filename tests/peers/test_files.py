"""Store directories from Apache's broker to OrbitMQ and back, after a clean stop and after a kill."""

from __future__ import annotations

import contextlib
import itertools
import subprocess
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.kit.brokers import others_at_night
from tests.needs import need
from tests.peers import suites
from tests.peers.apache import Apache
from tests.peers.machine import cache
from tests.peers.suites import JUDGE, Server, SuiteRun

SERVERS = {"apache": Apache, "orbitmq": suites.under_test()}
MOVES = [
    f"{writer} to {reader} after a {end}"
    for (writer, reader), end in itertools.product(
        [("apache", "orbitmq"), ("orbitmq", "apache")], ["stop", "kill"]
    )
]
ALWAYS = ("apache to orbitmq after a stop", "orbitmq to apache after a kill")
SOON_ASKED = {"transactionTimeOut": 3000, "transactionCheckInterval": 3000, "transactionCheckMax": 1000}
"""The reader asks about what the writer left open after seconds, not after half a minute; and it goes on
asking until a producer is there, however slow the machine."""

SUITE = "files"
pytestmark = pytest.mark.timeout(1800)


def write(server: Server, notes: Path) -> None:
    """Puts the known messages, offsets and settings into the server's store."""
    command = [str(JUDGE / "java" / "run.sh"), "write", server.namesrv, str(notes)]
    wrote = subprocess.run(
        command,
        env=suites.environment(JUDGE_MAIN="judge.Files"),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert wrote.returncode == 0, f"{wrote.stdout[-2000:]}{wrote.stderr[-2000:]}; the server: {server.tail()}"


def moved(move: str, folder: Path, stack: ExitStack) -> SuiteRun:
    """Fills a store with one broker, ends it, and lets the other answer for what is in there."""
    writer, _, reader, _, _, end = move.split()
    store, notes = folder / "store", folder / "notes.json"
    first = SERVERS[writer].start(store)
    try:
        write(first, notes)
    except BaseException:
        first.kill()
        raise
    first.kill() if end == "kill" else first.stop()
    second = SERVERS[reader].start(store, SOON_ASKED)
    stack.callback(second.kill)
    run = SuiteRun(["java/run.sh", "check", second.namesrv, str(notes)], second, JUDGE_MAIN="judge.Files")
    stack.callback(run.close)
    return run


@pytest.fixture(scope="module")
def moves(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[SuiteRun]]]:
    """Every move that was asked for: two at a time, for most of each is waiting for a delayed message."""
    need("java", "mvn")
    cache()
    wanted = {item.callspec.params["move"] for item in request.session.items if "move" in _parameters(item)}
    with ExitStack() as stack, ThreadPoolExecutor(max_workers=2) as pool:
        yield {
            move: pool.submit(moved, move, tmp_path_factory.mktemp("files"), stack)
            for move in MOVES
            if move in wanted
        }


def _parameters(item: pytest.Item) -> dict[str, object]:
    return item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}


@pytest.mark.parametrize("case", suites.parameters(SUITE))
@pytest.mark.parametrize("move", others_at_night(MOVES, ALWAYS))
def test_files(
    move: str, case: str, moves: dict[str, Future[SuiteRun]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    @contextlib.contextmanager
    def once_more() -> Iterator[SuiteRun]:
        # Files that a case changed stay changed: it needs a store of its own.
        with ExitStack() as stack:
            yield moved(move, tmp_path_factory.mktemp("again"), stack)

    suites.expect(case, moves[move].result(), once_more)
