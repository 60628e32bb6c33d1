"""Identity of a program towards servers: from flags, variables and arguments."""

import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from orbitmq.access import Access, context_of, credentials_of
from orbitmq.client.core.options import ProducerOptions
from orbitmq.flags import access_flags
from orbitmq.protocol.remoting.signing import Credentials
from tests.certificates import Authority

KEYS = {"ORBITMQ_ACCESS_KEY": "ann", "ORBITMQ_SECRET_KEY": "from-variable"}


def asked(arguments: Sequence[str] = (), **environment: str) -> tuple[Access | None, Result]:
    found: list[Access] = []

    @click.command()
    @access_flags
    @click.option("--other", default=1)
    def command(namesrv: str, access: Access, other: int) -> None:
        found.append(access)

    bare = {"ORBITMQ_ACCESS_KEY": None, "ORBITMQ_SECRET_KEY": None, "ORBITMQ_TLS": None}
    result = CliRunner().invoke(command, list(arguments), env={**bare, **environment})
    return (found[0] if found else None), result


def test_nothing_given_is_nothing() -> None:
    assert asked()[0] == Access()
    assert credentials_of(None, None) is None
    assert context_of(False) is None


def test_keys_of_the_environment() -> None:
    assert asked(**KEYS)[0] == Access(Credentials("ann", "from-variable"))
    with_token, _ = asked(**KEYS, ORBITMQ_SECURITY_TOKEN="token")
    assert with_token == Access(Credentials("ann", "from-variable", "token"))


def test_a_file_comes_before_the_variable(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("from-file\r\nsecond line")
    found, _ = asked(["--access-key", "bob", "--secret-file", str(file)], **KEYS)
    assert found == Access(Credentials("bob", "from-file"))


def test_a_secret_is_no_argument() -> None:
    _, result = asked(["--help"])
    assert "--secret-key" not in result.output
    assert "--secret-file" in result.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--access-key", "ann"], "ORBITMQ_SECRET_KEY"),
        (["--access-key", "ann", "--secret-file", "/nowhere"], "No such file"),
        (["--tls-ca", "/nowhere"], "No such file"),
        (["--tls-key", "/nowhere"], "--tls-key needs --tls-cert"),
        (["--tls-ca", __file__], "is of no use"),
    ],
)
def test_what_is_wrong_is_said(arguments: list[str], words: str) -> None:
    found, result = asked(arguments)
    assert found is None
    assert result.exit_code == 2
    assert words in result.output


def test_tls_checks_whom_it_ends_at_unless_told_not_to() -> None:
    for arguments, environment in ((["--tls"], {}), ([], {"ORBITMQ_TLS": "1"})):
        found, _ = asked(arguments, **environment)
        assert found is not None
        assert found.ssl is not None
        assert found.ssl.check_hostname
        assert found.ssl.verify_mode is ssl.CERT_REQUIRED
    found, _ = asked(["--tls-insecure"])
    assert found is not None
    assert found.ssl is not None
    assert found.ssl.verify_mode is ssl.CERT_NONE


@pytest.mark.needs("openssl")
def test_authorities_and_certificates_of_files(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair, locked = authority.issue("mine"), authority.issue("locked", password="x")
    trust = ["--tls-ca", str(authority.cert)]
    found, _ = asked([*trust, "--tls-cert", str(pair.cert), "--tls-key", str(pair.key)])
    assert found is not None
    assert found.ssl is not None
    assert found.ssl.cert_store_stats()["x509_ca"] == 1
    _, result = asked([*trust, "--tls-cert", str(locked.cert), "--tls-key", str(locked.key)])
    assert result.exit_code == 2
    assert "without a password" in result.output


def options(**given: Any) -> ProducerOptions:
    return ProducerOptions("group", **given)


def test_producers_and_consumers_take_the_same() -> None:
    made = options(access_key="ann", secret_key="secret", security_token="token", tls=True)
    assert made.credentials == Credentials("ann", "secret", "token")
    assert "secret" not in repr(made).replace("secret_key", "").replace("security", "")
    assert "token'" not in repr(made)
    for half in ({"access_key": "ann"}, {"secret_key": "secret"}):
        with pytest.raises(ValueError, match="needed"):
            options(**half)
