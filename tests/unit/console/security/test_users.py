import os
from pathlib import Path

import pytest

from orbitmq.console.security.roles import Role
from orbitmq.console.security.users import UserFile, set_user
from orbitmq.options import OptionError


def test_a_user_is_added_then_changed_and_seen_without_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "users"
    users = UserFile(path)
    assert users.users == {}
    assert set_user(path, "ann", Role.VIEWER, "first password")
    found = users.check(users.users.get("ann"), "first password")
    assert found is not None
    assert found.role is Role.VIEWER
    assert not set_user(path, "ann", Role.ADMIN, "second password")
    assert users.check(users.users.get("ann"), "first password") is None
    assert users.check(users.users.get("bob"), "second password") is None
    changed = users.check(users.users.get("ann"), "second password")
    assert changed is not None
    assert changed.role is Role.ADMIN


def test_the_right_to_read_bodies_is_in_the_file_and_independent_of_the_role(tmp_path: Path) -> None:
    path = tmp_path / "users"
    set_user(path, "ann", Role.ADMIN, "first password", reads_bodies=False)
    set_user(path, "bob", Role.VIEWER, "first password")
    found = UserFile(path).users
    assert [(one.role, one.reads_bodies) for one in found.values()] == [
        (Role.ADMIN, False),
        (Role.VIEWER, True),
    ]
    assert path.read_text().startswith("ann:admin,no-bodies:")


def test_only_the_owner_may_read_the_file(tmp_path: Path) -> None:
    set_user(tmp_path / "users", "ann", Role.VIEWER, "first password")
    assert os.stat(tmp_path / "users").st_mode & 0o777 == 0o600
    assert "first password" not in (tmp_path / "users").read_text()


def test_a_damaged_file_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "users").write_text("ann:viewer:hash\nnonsense\n")
    with pytest.raises(OptionError, match="line 2: expected NAME:ROLE:HASH"):
        _ = UserFile(tmp_path / "users").users


def test_a_name_that_would_break_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="no user name"):
        set_user(tmp_path / "users", "ann:admin", Role.VIEWER, "first password")
