import errno
from pathlib import Path

import pytest

from orbitmq.cli import main
from orbitmq.cli.exits import ExitCode, explain
from orbitmq.net.errors import BadAddress, ConnectFailed
from orbitmq.options import InvalidValue, UnknownOption
from orbitmq.protocol.errors import PeerBusy
from orbitmq.server.errors import CannotListen, StartError
from orbitmq.store.errors import StoreCorrupt, StoreLocked


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (UnknownOption("brokrName", "--set", ["brokerName"]), ExitCode.USAGE, "did you mean brokerName?"),
        (InvalidValue("a", "b", "a number", "file"), ExitCode.USAGE, "file: a=b is not valid"),
        (BadAddress("'x' is not an address"), ExitCode.USAGE, "not an address"),
        (CannotListen("h:1", "the port is taken"), ExitCode.CANNOT_LISTEN, "cannot listen on h:1"),
        (StoreLocked(Path("/d"), "process 7"), ExitCode.DATA_LOCKED, "/d is in use by process 7"),
        (StoreCorrupt(Path("/d/x"), "is no file", "move it"), ExitCode.DATA_UNUSABLE, "move it"),
        (StartError("kv.json cannot be read"), ExitCode.DATA_UNUSABLE, "kv.json"),
        (ConnectFailed("h:1", "refused"), ExitCode.FAILED, "cannot connect to h:1: refused"),
        (PeerBusy(2, "two\n lines"), ExitCode.FAILED, "two lines"),
        (
            PermissionError(errno.EACCES, "Permission denied", "/d"),
            ExitCode.DATA_UNUSABLE,
            "/d: Permission denied",
        ),
        (OSError(errno.ENOSPC, "No space left on device", "/d/f"), ExitCode.DISK_FULL, "/d/f: No space left"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), ExitCode.DISK_FULL, "the disk is full: Disk quota"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), ExitCode.FAILED, ""),
    ],
)
def test_what_a_user_can_mend_is_one_line_and_a_code(error: Exception, code: ExitCode, words: str) -> None:
    explained = explain(error)
    assert explained is not None
    assert explained[0] is code
    assert words in explained[1]
    assert "\n" not in explained[1]


def test_a_full_disk_is_seen_behind_other_errors() -> None:
    try:
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        except OSError as full:
            raise StoreCorrupt(Path("/d"), "cannot be written", "look") from full
    except StoreCorrupt as error:
        explained = explain(error)
    assert explained is not None
    assert explained[0] is ExitCode.DISK_FULL


def test_a_bug_is_not_explained_away() -> None:
    assert explain(KeyError("x")) is None
    assert explain(AssertionError()) is None


def test_ctrl_c_while_modules_are_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("orbitmq.cli.app.run", interrupted)
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, capsys.readouterr().err) == (130, "aborted\n")
