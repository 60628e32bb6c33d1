"""Bad files in every place of a data folder: the start repairs what can be made anew, or refuses with one
line that names the file and says what to do. It never begins with less than was acknowledged without a word.

`docs/trust/reliability.md` has the table that follows from `EXPECTED`.
"""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

from orbitmq.broker.auth.policies import UserStatus, UserType
from orbitmq.broker.auth.table import AuthFile
from orbitmq.protocol.bodies.auth import User
from orbitmq.protocol.bodies.heartbeat import SubscriptionData
from orbitmq.protocol.bodies.pop import MessageRequestMode, SetMessageRequestModeRequestBody
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.protocol.requests.offset import UpdateConsumerOffset
from orbitmq.protocol.schema import fastjson
from orbitmq.server.errors import StartError
from orbitmq.server.lifecycle.auth_file import load_auth
from orbitmq.server.tasks.table_writer import load_table
from orbitmq.store.config_files import write_text
from orbitmq.store.log.commit_log import UNFLUSHED
from tests.fault.bad_files import (
    AGAIN,
    COUNTED,
    KEPT,
    REFUSED,
    REPAIRED,
    TABLE,
    Defect,
    assert_documented,
    empty,
    folder,
    foreign,
    future,
    longer,
    missing,
    pipe,
    swapped,
    truncated,
    unreadable,
    zeros,
)
from tests.fault.recorded_broker import SMALL, with_small_wheel
from tests.kit.real_broker import NOW, RealBroker
from tests.kit.store import read_queue

pytestmark = pytest.mark.usefixtures("modes_hold")

COUNT = 150
DELAYED, TIMED = 3, 3
GROUP = "G"

FIRST, MIDDLE, LAST = "commitlog/first", "commitlog/middle", "commitlog/last"
QUEUE, QUEUE_LAST = "consumequeue/T/0/first", "consumequeue/T/0/last"
INDEX, TIMER_LOG = "index/last", "timerlog/first"

COMMIT_LOG = {
    empty: REFUSED, truncated: REFUSED, longer: REFUSED, folder: REFUSED, foreign: COUNTED, zeros: COUNTED,
    swapped: COUNTED, unreadable: REFUSED, pipe: REFUSED,
}  # fmt: skip
REBUILT = {
    missing: REPAIRED, empty: REPAIRED, truncated: REPAIRED, zeros: REPAIRED, foreign: REPAIRED,
    folder: REFUSED, pipe: REFUSED, unreadable: REFUSED,
}  # fmt: skip

EXPECTED: dict[str, dict[Defect, str]] = {
    FIRST: {**COMMIT_LOG, missing: COUNTED},
    MIDDLE: {**COMMIT_LOG, missing: REFUSED},
    LAST: {**COMMIT_LOG, missing: REFUSED},
    QUEUE: {**REBUILT, longer: REFUSED, swapped: REPAIRED},
    QUEUE_LAST: {**REBUILT, longer: REFUSED, swapped: REPAIRED},
    INDEX: {**REBUILT, longer: REPAIRED, future: REPAIRED},
    "checkpoint": {**REBUILT, longer: REPAIRED, future: REPAIRED},
    UNFLUSHED: {**REBUILT, longer: REPAIRED, future: REPAIRED},
    "queuemarks.json": {**REBUILT, longer: REPAIRED, future: REPAIRED},
    "timerwheel": {**REBUILT, truncated: REFUSED, longer: REFUSED},
    TIMER_LOG: {**REBUILT, truncated: REFUSED, longer: REFUSED},
    "config/timercheck": {
        missing: AGAIN, empty: AGAIN, truncated: REPAIRED, zeros: AGAIN, foreign: AGAIN, future: AGAIN,
        longer: REPAIRED, folder: REFUSED, pipe: REFUSED, unreadable: REFUSED,
    },
    "config/topics.json": TABLE,
    "config/subscriptionGroup.json": TABLE,
    "config/consumerOffset.json": TABLE,
    "config/delayOffset.json": TABLE,
    "config/consumerOrderInfo.json": TABLE,
    "config/consumerFilter.json": TABLE,
    "config/messageRequestMode.json": TABLE,
    "config/transactionMetrics": TABLE,
    "config/timermetrics": TABLE,
    "config/auth.json": TABLE,
    "config/auth.key": {
        missing: REFUSED, empty: REFUSED, truncated: REFUSED, foreign: REFUSED, zeros: REFUSED,
        longer: REFUSED, swapped: REFUSED, future: REFUSED, folder: REFUSED, pipe: REFUSED,
        unreadable: REFUSED,
    },
}  # fmt: skip
CASES = [(place, defect) for place, defects in EXPECTED.items() for defect in defects]
BOTH = [place for place, defects in EXPECTED.items() if defects is TABLE]


def message_body(number: int) -> bytes:
    return b"%d " % number + bytes(900)


def started(root: Path, now: int) -> RealBroker:
    """A broker on a folder, its tables read as the server reads them."""
    real = RealBroker(root, now, **SMALL)
    try:
        for name, (file, _, load_text) in real.broker.files.items():
            if name == real.broker.auth.NAME:
                load_auth(real.broker.settings, root / "config", real.broker.auth)
            else:
                load_table(root / "config" / file, load_text)
    except BaseException:
        real.store.abandon()
        raise
    return real


def save(real: RealBroker, root: Path) -> None:
    for file, snapshot, _ in real.broker.files.values():
        write_text(root / "config" / file, snapshot()())


def held(real: RealBroker) -> dict[str, Any]:
    """Content of each table, by the name of its file."""
    contents = {}
    real.broker.auth.sealing = None  # the same secret is never sealed to the same text twice
    for file, snapshot, _ in real.broker.files.values():
        # Apache's tables have numbers as keys, which the standard parser does not take.
        content = fastjson.parse(snapshot()())
        content.pop("dataVersion", None)
        contents[file] = content
    return contents


def timers(real: RealBroker, now: int) -> None:
    for _ in range(10_000):
        step = real.broker.timer.step(now)
        if step.fetch is not None:
            step.fetch()
            real.broker.timer.fetched()
        elif not step.again:
            return


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with something in every file, closed in order."""
    root: Path = tmp_path_factory.mktemp("bad") / "store"
    with pytest.MonkeyPatch.context() as monkeypatch:
        with_small_wheel(monkeypatch)
        real = RealBroker(root, NOW, **SMALL)
        broker, store = real.broker, real.store
        for number in range(COUNT):
            real.send(
                NOW + number, topic="T", queue_id=0, default_topic_queue_nums=2, body=message_body(number),
                properties=f"UNIQ_KEY\x01ID{number:08d}\x02",
            )  # fmt: skip
        for number in range(COUNT, COUNT + DELAYED):
            real.send(
                NOW + 200, topic="T", queue_id=1, body=message_body(number), properties="DELAY\x013\x02"
            )
        for number in range(COUNT + DELAYED, COUNT + DELAYED + TIMED):
            due = f"TIMER_DELIVER_MS\x01{NOW + 60_000}\x02"
            real.send(NOW + 200, topic="T", queue_id=1, body=message_body(number), properties=due)
        timers(real, NOW + 1_500)
        broker.groups.find(GROUP, NOW)
        real.handle(UpdateConsumerOffset(GROUP, "T", 0, 42), NOW)
        broker.order.begin(("T", GROUP, 0), "attempt", [42, 43], 600_000, NOW)
        broker.filters.register(GROUP, [SubscriptionData("T", "a > 3", "SQL92")], NOW)
        broker.modes.set(SetMessageRequestModeRequestBody("T", GROUP, MessageRequestMode.POP))
        ann = User("ann", "secret", user_type=UserType.NORMAL, user_status=UserStatus.ENABLE)
        load_auth(broker.settings, root / "config", broker.auth)
        broker.auth.load_text(AuthFile({"ann": ann}).to_pretty_json())
        store.flushing.flush_now()
        broker.delay.deliver_due(NOW + 1_000)
        for _ in range(2):
            save(real, root)  # the second one makes the .bak
        for task in store.periodic_tasks():
            if task.name != "retention":
                task.run(NOW + 100_000)
        broker.stop(NOW + 2_000)
        store.close()
    assert len(list((root / "commitlog").iterdir())) >= 3
    return root


@pytest.fixture(scope="module")
def sound(template: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Content of the tables after a start on good files."""
    root: Path = tmp_path_factory.mktemp("sound") / "store"
    shutil.copytree(template, root)
    with pytest.MonkeyPatch.context() as monkeypatch:
        with_small_wheel(monkeypatch)
        real = started(root, NOW + 3_000)
        contents = held(real)
        real.store.abandon()
    return contents


def place_of(root: Path, place: str) -> Path:
    """The file that a place means."""
    where, _, which = place.rpartition("/")
    if which in ("first", "middle", "last"):
        names = sorted(path for path in (root / where).iterdir() if any(path.read_bytes()))
        return names[{"first": 0, "middle": len(names) // 2, "last": -1}[which]]
    return root / place


def other_content(root: Path, place: str) -> bytes:
    """The content of another file of the same kind."""
    if place.startswith("config/"):
        name = "topics.json" if "topics" not in place else "consumerOffset.json"
        return (root / "config" / name).read_bytes()
    where, _, which = place.rpartition("/")
    return place_of(root, f"{where}/{'last' if which != 'last' else 'first'}").read_bytes()


def outcome(real: RealBroker, now: int) -> dict[int, int]:
    """Number of copies of each message, once all are due."""
    timers(real, now)
    now += 120_000
    while real.broker.delay.deliver_due(now):
        pass
    for _ in range(200):
        timers(real, now)
    times: dict[int, int] = {}
    for queue_id in (0, 1):
        for record in read_queue(real.store, "T", queue_id):
            number = int(record.body.split()[0])
            assert record.body == message_body(number), "something damaged was served"
            times[number] = times.get(number, 0) + 1
    return times


def content_of(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name not in ("lock", "abort") and path.stat().st_mode & 0o444
    }


@pytest.mark.parametrize(("place", "defect"), CASES, ids=lambda value: getattr(value, "__name__", value))
def test_a_bad_file(
    template: Path,
    sound: dict[str, Any],
    tmp_path: Path,
    place: str,
    defect: Defect,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with_small_wheel(monkeypatch)
    root = tmp_path / "store"
    shutil.copytree(template, root)
    path = place_of(root, place)
    if place == UNFLUSHED:
        path.write_text("1000")  # as a failed flush leaves it, and the end without order behind it
        (root / "abort").touch()
    if defect is swapped:
        path.write_bytes(other_content(template, place))
    else:
        defect(path, root)
    expected = EXPECTED[place][defect]
    now = NOW + 3_000
    before = content_of(root)
    caplog.set_level(logging.WARNING)
    if expected is REFUSED:
        with pytest.raises((OrbitError, StartError)) as refused:
            started(root, now)
        (line,) = str(refused.value).splitlines()
        assert path.parent.name in line, "it names the place"
        assert ";" in line, "it says what to do"
        logs = {name: data for name, data in before.items() if name.startswith("commitlog/") and data}
        assert {name: data for name, data in content_of(root).items() if name in logs} == logs
        if place.endswith(".key"):
            assert "auth.json" in line
            kept = {name: data for name, data in before.items() if "/auth." in name}
            assert {name: data for name, data in content_of(root).items() if "/auth." in name} == kept
        return
    real = started(root, now)
    try:
        assert held(real) == sound
        found = outcome(real, now)
        everything = set(range(COUNT + DELAYED + TIMED))
        if expected is COUNTED:
            lost = everything - set(found)
            if place != FIRST or defect is not missing:
                assert real.store.figures().bad_records, "what cannot be served is counted"
            assert len(lost) < COUNT, "the rest is served"
            assert set(found.values()) == {1}
        else:
            assert set(found) == everything
            most = 2 if expected is AGAIN else 1
            assert max(found.values()) <= most
        if expected in (KEPT, AGAIN):
            assert path.name in caplog.text, "a warning names the file"
        record = real.send(now + 130_000, topic="T", queue_id=0, body=b"more")
        assert record.queue_offset == real.store.max_offset("T", 0) - 1
        assert place != FIRST or decode_record(real.store.get("T", 0, record.queue_offset, 1).records[0]).body
    finally:
        real.store.abandon()


@pytest.mark.parametrize("defect", [truncated, empty], ids=lambda defect: defect.__name__)
@pytest.mark.parametrize("place", BOTH)
def test_a_table_and_its_backup_both_bad(
    template: Path, tmp_path: Path, place: str, defect: Defect, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_small_wheel(monkeypatch)
    root = tmp_path / "store"
    shutil.copytree(template, root)
    path = root / place
    for one in (path, path.with_name(path.name + ".bak")):
        defect(one, root)
    before = content_of(root)
    with pytest.raises(StartError) as refused:
        started(root, NOW + 3_000)
    (line,) = str(refused.value).splitlines()
    assert str(path) in line
    assert line.endswith("restore one of them")
    after = content_of(root)
    assert after[place] == before[place], "nothing is written over it"


@pytest.mark.parametrize(
    "name",
    ["commitlog", "consumequeue", "consumequeue/T", "index", "config", "timerlog", "lock", "abort"],
)
def test_a_file_where_a_folder_has_to_be_and_the_other_way_round(
    template: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_small_wheel(monkeypatch)
    root = tmp_path / "store"
    shutil.copytree(template, root)
    path = root / name
    if path.is_dir():
        shutil.rmtree(path)
        path.write_text("no folder")
    else:
        path.unlink(missing_ok=True)
        path.mkdir()
        (path / "x").touch()
    with pytest.raises((OrbitError, StartError)) as refused:
        started(root, NOW + 3_000)
    (line,) = str(refused.value).splitlines()
    assert str(root) in line
    assert ";" in line


def test_a_pipe_in_the_place_of_the_lock(template: Path, tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(template, root)
    pipe(root / "lock", root)
    with pytest.raises(OrbitError, match=r"lock.*is no regular file; move it away"):
        started(root, NOW + 3_000)


def test_foreign_files_are_left_alone(
    template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_small_wheel(monkeypatch)
    root = tmp_path / "store"
    shutil.copytree(template, root)
    places = [
        "",
        "commitlog",
        "consumequeue",
        "consumequeue/T",
        "consumequeue/T/0",
        "index",
        "config",
        "timerlog",
    ]
    files = [root / place / name for place in places for name in ("README", ".hidden", "0", "core.123")]
    for file in files:
        if not file.exists():
            file.write_text("foreign")
    real = started(root, NOW + 3_000)
    assert set(outcome(real, NOW + 3_000)) == set(range(COUNT + DELAYED + TIMED))
    real.store.close()
    assert all(file.read_text() == "foreign" for file in files if file.is_file())


def test_the_document_has_each_case() -> None:
    for place, defects in EXPECTED.items():
        assert_documented(
            place.replace("/first", "/*, the first")
            .replace("/middle", "/*, one between")
            .replace("/last", "/*, the last"),
            defects,
        )
