from pathlib import Path

import pytest

from orbitmq.console.security.roles import Role
from orbitmq.console.security.users import set_user
from orbitmq.console.settings import ConsoleSettings
from orbitmq.options import OptionError

HERE = {"here": "127.0.0.1:9876"}


def test_the_loopback_needs_neither_users_nor_tls(tmp_path: Path) -> None:
    for host in ("127.0.0.1", "::1", "localhost"):
        assert ConsoleSettings(HERE, tmp_path, host).is_loopback


def test_another_address_is_refused_until_there_are_users_and_tls(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="needs users: orbitmq console set-user"):
        ConsoleSettings(HERE, tmp_path, "0.0.0.0")
    set_user(tmp_path / "users", "ann", Role.ADMIN, "a long password")
    with pytest.raises(OptionError, match="needs TLS"):
        ConsoleSettings(HERE, tmp_path, "0.0.0.0")
    assert not ConsoleSettings(HERE, tmp_path, "0.0.0.0", tls_cert=tmp_path / "c.pem").is_loopback


@pytest.mark.parametrize(
    ("clusters", "words"), [({}, "needs a cluster"), ({"a/b": "x:1"}, "no name for a cluster")]
)
def test_clusters_need_names_that_fit_an_address(
    tmp_path: Path, clusters: dict[str, str], words: str
) -> None:
    with pytest.raises(OptionError, match=words):
        ConsoleSettings(clusters, tmp_path)


def test_a_key_needs_its_certificate(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="--https-cert"):
        ConsoleSettings(HERE, tmp_path, tls_key=tmp_path / "k.pem")
