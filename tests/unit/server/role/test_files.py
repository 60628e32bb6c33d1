from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.broker.role.epochs import Epochs
from orbitmq.broker.role.machine import Elected
from orbitmq.broker.role.role import Role, RoleChange
from orbitmq.protocol.epoch_replication import Epoch
from orbitmq.server.errors import StartError
from orbitmq.server.role import files
from orbitmq.server.role.files import Application, EpochFile, FollowedFile, IdentityFile, RunFile

OWN = "host-2:10911"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "identity"


def opened(path: Path) -> IdentityFile:
    return IdentityFile(path, "C", "broker-a")


def test_a_new_broker_has_no_id(path: Path) -> None:
    assert opened(path).read() is None
    assert opened(path).read_application() is None


def test_an_id_that_was_applied_for_is_known_after_a_crash(path: Path) -> None:
    opened(path).apply(Application(2, "code"))
    assert opened(path).read() is None
    assert opened(path).read_application() == Application(2, "code")


def test_an_id_that_was_given_ends_its_application_and_has_the_form_of_apaches_file(path: Path) -> None:
    identity = opened(path)
    identity.apply(Application(2, "code"))
    identity.given(2)
    assert opened(path).read() == 2
    assert opened(path).read_application() is None
    assert path.read_text() == "C#broker-a#2"


@pytest.mark.parametrize("text", ["", "C#broker-a", "C#broker-a#x", "C#broker-a#1#more"])
def test_a_damaged_file_ends_the_start_with_advice(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(StartError, match="restore it, or remove it"):
        opened(path).read()


def test_the_folder_of_another_broker_is_refused(path: Path) -> None:
    IdentityFile(path, "C", "broker-b").given(1)
    with pytest.raises(StartError, match="start it with its own data folder"):
        opened(path).read()


def test_a_slave_knows_its_master_when_it_begins_anew_and_a_master_follows_nobody(tmp_path: Path) -> None:
    file = FollowedFile(tmp_path / "followedMaster", "C", "broker-a", OWN)
    assert file.read() is None
    file.note(RoleChange(Role.SLAVE, 2, master_address="[::1]:10911", epoch=7))
    assert file.read() == Elected.followed("[::1]:10911", 7)
    file.note(RoleChange(Role.UNKNOWN, 2, epoch=8))
    assert file.read() == Elected.followed("[::1]:10911", 7)
    assert FollowedFile(tmp_path / "followedMaster", "C", "broker-b", OWN).read() is None
    # A copy of its folder: the slave may run, and its master counts one of them.
    assert FollowedFile(tmp_path / "followedMaster", "C", "broker-a", "host-3:10911").read() is None
    file.note(RoleChange(Role.MASTER, 0, epoch=9))
    assert file.read() is None


@pytest.mark.parametrize(
    "text", ["", f"C#broker-a#{OWN}#x#host:1", f"C#broker-a#{OWN}#7#", "#" * 9, "C#broker-a#7#host:1"]
)
def test_a_damaged_note_of_the_master_counts_for_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "followedMaster").write_text(text)
    assert FollowedFile(tmp_path / "followedMaster", "C", "broker-a", OWN).read() is None


@pytest.mark.parametrize(
    ("sync_flush", "is_ended", "log_end", "has_all"),
    [
        (False, True, 1500, True),
        (False, True, 1499, False),  # it ended in order, and something was removed since
        (False, False, 1500, False),  # a power cut may have taken what was acknowledged
        (True, False, 1000, True),
        (True, False, 0, False),  # the folder of the log was emptied
    ],
)
def test_a_run_knows_whether_its_log_may_lack_the_end_of_the_one_before(
    tmp_path: Path, sync_flush: bool, is_ended: bool, log_end: int, has_all: bool
) -> None:
    file = RunFile(tmp_path / "lastRun", "C", "broker-a")
    first = file.begin(1000, sync_flush=sync_flush)
    assert first.last is None
    if is_ended:
        file.end(first, 1500)
    second = file.begin(log_end, sync_flush=sync_flush)
    assert second.last == (first.id if has_all else None)
    assert second.id != first.id


@pytest.mark.parametrize("text", ["", "C#broker-a#1", "C#broker-b#ab#0#ended", "C#broker-a#ab#x#ended"])
def test_a_run_after_an_unreadable_one_may_lack_the_end_of_its_log(tmp_path: Path, text: str) -> None:
    path = tmp_path / "lastRun"
    path.write_text(text)
    assert RunFile(path, "C", "broker-a").begin(0, sync_flush=True).last is None


def test_epochs_that_the_disk_does_not_take_neither_begin_nor_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, epochs = EpochFile(tmp_path / "epochs"), Epochs([Epoch(1, 0)])

    def full(path: Path, text: str) -> None:
        raise OSError(28, "full")

    with monkeypatch.context() as patch:
        patch.setattr(files, "write_text", full)
        with pytest.raises(OSError, match="full"):
            file.begin(epochs, Epoch(2, 100))
    assert epochs.last == 1
    file.begin(epochs, Epoch(2, 100))
    assert file.read().entries == epochs.entries == [Epoch(1, 0), Epoch(2, 100)]
    with monkeypatch.context() as patch:
        patch.setattr(files, "write_text", full)
        with pytest.raises(OSError, match="full"):
            file.truncate(epochs, 100)
    assert epochs.last == 2
    file.truncate(epochs, 100)
    assert file.read().entries == epochs.entries == [Epoch(1, 0)]
