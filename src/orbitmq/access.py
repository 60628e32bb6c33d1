"""Name servers, credentials and encryption of a program's connections, from the user's flags and environment.

The flags of commands are here as well: a secret is never one of them, for other users of a machine can read
the command lines of its processes.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orbitmq.net.address import DEFAULT_NAMESRV, NAMESRV_VARIABLE
from orbitmq.protocol.remoting.signing import Credentials

if TYPE_CHECKING:
    import ssl

    import click

SECRET_VARIABLE = "ORBITMQ_SECRET_KEY"
TOKEN_VARIABLE = "ORBITMQ_SECURITY_TOKEN"


@dataclass(slots=True, frozen=True)
class Access:
    """Credentials and encryption of connections."""

    credentials: Credentials | None = None
    ssl: ssl.SSLContext | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of a producer, a consumer or an `Admin`."""
        given: dict[str, Any] = {"tls": self.ssl or False}
        if self.credentials is not None:
            given["access_key"] = self.credentials.access_key
            given["secret_key"] = self.credentials.secret_key
            given["security_token"] = self.credentials.security_token
        return given


def credentials_of(
    access_key: str | None, secret_key: str | None, security_token: str | None = None
) -> Credentials | None:
    """The credentials that sign requests, or None without keys. Raises ValueError for half of a pair."""
    if not access_key and not secret_key:
        return None
    return Credentials(access_key or "", secret_key or "", security_token or None)


def context_of(tls: bool | ssl.SSLContext) -> ssl.SSLContext | None:
    """The TLS context of connections: True checks certificates and names by the system's authorities."""
    if tls is True:
        from ssl import create_default_context

        return create_default_context()
    return tls or None


def access_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """--namesrv, and --access-key, --tls and their kin, which the command gets as an `Access`, `access`."""
    import click

    @functools.wraps(command)
    def with_access(*args: Any, **kwargs: Any) -> Any:
        given = {name: kwargs.pop(name) for name in _FLAGS}
        return command(*args, access=_read(given, os.environ), **kwargs)

    flags = [
        namesrv_flag(),
        *signing_flags(),
        *tls_flags("Use TLS, and trust these certificates (PEM) in place of the system's."),
        click.Option(
            ["--tls-cert"],
            type=click.Path(dir_okay=False),
            help="Use TLS with this client certificate (PEM; with its key unless --tls-key is given).",
        ),
        click.Option(["--tls-key"], type=click.Path(dir_okay=False), help="Private key of --tls-cert (PEM)."),
        click.Option(
            ["--tls-insecure"],
            is_flag=True,
            help="Use TLS without checking the server's certificate: for self-signed certificates in tests.",
        ),
    ]
    own = list(getattr(command, "__click_params__", []))
    # click keeps the flags of stacked decorators from the last to the first.
    with_access.__click_params__ = [*reversed(flags), *own]  # type: ignore[attr-defined]
    return with_access


def namesrv_flag() -> click.Option:
    """--namesrv."""
    import click

    return click.Option(
        ["-n", "--namesrv"],
        metavar="HOST:PORT[;...]",
        envvar=NAMESRV_VARIABLE,
        show_envvar=True,
        default=DEFAULT_NAMESRV,
        show_default=True,
        help="Name servers.",
    )


def signing_flags() -> list[click.Option]:
    """--access-key and --secret-file, for `read_credentials`."""
    import click

    return [
        click.Option(
            ["--access-key"],
            metavar="USER",
            envvar="ORBITMQ_ACCESS_KEY",
            show_envvar=True,
            help=f"Sign as this user, with the secret in {SECRET_VARIABLE} or --secret-file.",
        ),
        click.Option(
            ["--secret-file"],
            type=click.Path(dir_okay=False),
            envvar="ORBITMQ_SECRET_FILE",
            show_envvar=True,
            help="File whose first line is the user's secret.",
        ),
    ]


def tls_flags(ca_help: str) -> list[click.Option]:
    """--tls and --tls-ca."""
    import click

    return [
        click.Option(["--tls"], is_flag=True, envvar="ORBITMQ_TLS", show_envvar=True, help="Use TLS."),
        click.Option(
            ["--tls-ca"],
            type=click.Path(dir_okay=False),
            envvar="ORBITMQ_TLS_CA",
            show_envvar=True,
            help=ca_help,
        ),
    ]


_FLAGS = ("access_key", "secret_file", "tls", "tls_ca", "tls_cert", "tls_key", "tls_insecure")


def _read(given: Mapping[str, Any], environment: Mapping[str, str]) -> Access:
    return Access(read_credentials(given, environment), _context(given))


def read_credentials(given: Mapping[str, Any], environment: Mapping[str, str]) -> Credentials | None:
    """The credentials in `access_key` and `secret_file` of a command, and in the environment. Raises
    UsageError.
    """
    import click

    if not given["access_key"]:
        return None
    secret = environment.get(SECRET_VARIABLE, "")
    if given["secret_file"]:
        path = given["secret_file"]
        try:
            with open(path, encoding="utf-8") as file:
                secret = file.readline().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise click.UsageError(f"--secret-file {path}: {reason}") from None
    if not secret:
        raise click.UsageError(
            f"--access-key needs a secret: in the variable {SECRET_VARIABLE}, or in the file of --secret-file"
        )
    return Credentials(given["access_key"], secret, environment.get(TOKEN_VARIABLE) or None)


def _context(given: Mapping[str, Any]) -> ssl.SSLContext | None:
    wanted = ("tls", "tls_ca", "tls_cert", "tls_key", "tls_insecure")
    if not any(given[name] for name in wanted):
        return None
    import ssl

    import click

    if given["tls_key"] and not given["tls_cert"]:
        raise click.UsageError("--tls-key needs --tls-cert")
    try:
        context = ssl.create_default_context(cafile=given["tls_ca"])
        if given["tls_cert"]:
            context.load_cert_chain(given["tls_cert"], given["tls_key"], password=_no_password)
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise click.UsageError(f"a file of --tls-... is of no use: {reason}") from None
    except OSError as error:
        raise click.UsageError(f"a file of --tls-... cannot be read: {error.strerror}") from None
    if given["tls_insecure"]:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _no_password() -> str:
    """OpenSSL would ask at the terminal."""
    raise ValueError("keys of commands have to be without a password")
