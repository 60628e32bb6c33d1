from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.broker.role.machine import Elected
from orbitmq.broker.role.role import Role, RoleChange
from orbitmq.server.errors import StartError
from orbitmq.server.role.files import Application, FollowedFile, IdentityFile


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
    file = FollowedFile(tmp_path / "followedMaster", "C", "broker-a")
    assert file.read() is None
    file.note(RoleChange(Role.SLAVE, 2, master_address="[::1]:10911", epoch=7))
    assert file.read() == Elected.followed("[::1]:10911", 7)
    file.note(RoleChange(Role.UNKNOWN, 2, epoch=8))
    assert file.read() == Elected.followed("[::1]:10911", 7)
    assert FollowedFile(tmp_path / "followedMaster", "C", "broker-b").read() is None
    file.note(RoleChange(Role.MASTER, 0, epoch=9))
    assert file.read() is None


@pytest.mark.parametrize("text", ["", "C#broker-a#x#host:1", "C#broker-a#7#", "#" * 9, "C#broker-a#7"])
def test_a_damaged_note_of_the_master_counts_for_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "followedMaster").write_text(text)
    assert FollowedFile(tmp_path / "followedMaster", "C", "broker-a").read() is None
