from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("cryptography")

from orbitmq.broker.auth.encryption import SEALED, Sealing, Unsealable


def sealing(folder: Path) -> Sealing:
    return Sealing(folder / "auth.json", folder / "keys" / "auth.key")


@pytest.mark.parametrize("secret", ["Secret-1", "", "\u00e4\u4f60", "\ud83d"])
def test_a_sealed_secret_hides_the_secret_and_opens_with_the_key_of_the_file(
    tmp_path: Path, secret: str
) -> None:
    stored = sealing(tmp_path).seal(secret)
    assert stored.startswith(SEALED)
    assert not secret or secret not in stored
    assert sealing(tmp_path).open(stored) == secret


def test_a_secret_in_clear_stays_as_it_is_and_needs_no_key(tmp_path: Path) -> None:
    assert sealing(tmp_path).open("Secret-1") == "Secret-1"
    assert not (tmp_path / "keys").exists()


def test_the_key_is_its_owners_alone_and_made_once(tmp_path: Path) -> None:
    first = sealing(tmp_path)
    assert first.prepare()
    key = first.key.read_bytes()
    assert first.key.stat().st_mode & 0o777 == 0o600
    assert sealing(tmp_path).prepare()
    assert first.key.read_bytes() == key


def test_without_its_key_a_secret_does_not_open_and_no_new_key_is_made(tmp_path: Path) -> None:
    first = sealing(tmp_path)
    stored = first.seal("Secret-1")
    first.key.unlink()
    with pytest.raises(Unsealable, match="is missing; put it back"):
        sealing(tmp_path).open(stored)
    assert not first.key.exists()


def test_another_key_or_a_damaged_text_is_said_without_the_secret(tmp_path: Path) -> None:
    stored = sealing(tmp_path / "a").seal("Secret-1")
    other = sealing(tmp_path / "b")
    other.prepare()
    for text in (stored, SEALED + "damaged"):
        with pytest.raises(Unsealable, match="cannot be opened with the key") as refused:
            other.open(text)
        assert "Secret-1" not in str(refused.value)


def test_a_file_that_is_no_key_is_refused_and_kept(tmp_path: Path) -> None:
    damaged = sealing(tmp_path)
    damaged.key.parent.mkdir()
    damaged.key.write_text("half a k")
    with pytest.raises(Unsealable, match="empty or damaged"):
        damaged.prepare()
    with pytest.raises(OSError, match="empty or damaged"):
        damaged.seal("Secret-1")
    assert damaged.key.read_text() == "half a k"
