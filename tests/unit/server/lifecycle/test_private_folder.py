import stat
from pathlib import Path

import pytest

from orbitmq.server.lifecycle.private_folder import make_private
from orbitmq.testing import LocalBroker

CHECKED = {
    "authenticationEnabled": "true",
    "initAuthenticationUser": '{"username":"root","password":"root-secret"}',
}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("is_there", [False, True])
def test_others_cannot_enter_the_folder_of_a_broker_with_access_control(
    tmp_path: Path, is_there: bool
) -> None:
    folder = tmp_path / "data"
    if is_there:
        folder.mkdir(mode=0o755)
    with LocalBroker(folder, **CHECKED):
        assert mode(folder) == 0o700


def test_a_folder_without_access_control_has_the_rights_that_its_user_wants(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)
    with LocalBroker(folder):
        assert mode(folder) == 0o755


def test_a_folder_of_somebody_else_is_left_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", refuse)
    (tmp_path / "wide").mkdir(mode=0o755)
    make_private(tmp_path / "wide")
    assert "others may enter" in caplog.text
    (tmp_path / "file").write_text("")
    make_private(tmp_path / "file" / "data")
