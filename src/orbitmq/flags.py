"""Flags that commands of several packages share: connections, times, and the size of bodies.

A secret is never a flag, for other users of a machine can read the command lines of its processes.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click

from orbitmq.access import SECRET_VARIABLE, TOKEN_VARIABLE, Access
from orbitmq.admin.bodies import FLAG, MAX_LIMIT_BYTES
from orbitmq.net.address import DEFAULT_NAMESRV, NAMESRV_VARIABLE
from orbitmq.protocol.records.compression import DEFAULT_MAX_INFLATED_BYTES
from orbitmq.protocol.remoting.signing import Credentials

if TYPE_CHECKING:
    import ssl


Command = TypeVar("Command", bound=Callable[..., Any])


def access_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """--namesrv, and --access-key, --tls and their kin, which the command gets as an `Access`, `access`."""

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
    return click.Option(
        ["-n", "--namesrv"],
        metavar="HOST:PORT[;...]",
        envvar=NAMESRV_VARIABLE,
        show_envvar=True,
        default=DEFAULT_NAMESRV,
        help="Name servers.",
    )


def signing_flags() -> list[click.Option]:
    """--access-key and --secret-file, for `read_credentials`."""
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


def pairs_of(texts: Iterable[str], flag: str = "", expected: str = "NAME=VALUE") -> list[tuple[str, str]]:
    """The names and values of NAME=VALUE texts: of a flag, or of arguments. Raises UsageError."""
    pairs = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise click.UsageError(f"{flag} {text}: expected {expected}".lstrip())
        pairs.append((name, value))
    return pairs


def all_of(*flags: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """One decorator of several; help shows the flags in this order."""
    return lambda command: functools.reduce(lambda made, flag: flag(made), reversed(flags), command)


def max_body_flag(
    help_text: str = "Maximum size of a body that was compressed, once it is inflated.",
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The flag, whose value the command gets as `max_inflated_body_bytes`."""
    return click.option(
        FLAG,
        "max_inflated_body_bytes",
        metavar="BYTES",
        type=click.IntRange(1, MAX_LIMIT_BYTES),
        default=DEFAULT_MAX_INFLATED_BYTES,
        help=help_text,
    )


if TYPE_CHECKING:
    _TimeType = click.ParamType[int]
else:  # older releases have no parameter there
    _TimeType = click.ParamType


class Seconds(click.FloatRange):
    """Seconds within a range."""

    name = "seconds"


class Moment(_TimeType):
    """A time; gives ms. `now` and `latest`, `today` and `yesterday` (their beginning), `earliest`, ms since
    1970, or ISO 8601 (local unless it says otherwise).
    """

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        text = str(value).strip()
        now = datetime.now()
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        words = {"now": now, "latest": now, "today": midnight, "yesterday": midnight - timedelta(days=1)}
        if text == "earliest":
            return 0
        if text in words:
            return int(words[text].timestamp() * 1000)
        if text.isdigit():
            return int(text)
        try:
            return int(datetime.fromisoformat(text).timestamp() * 1000)
        except ValueError:
            self.fail(
                f"{text!r} is no time: now, latest, today, yesterday, earliest, ms since 1970, or "
                "2026-01-31T23:59",
                param,
                ctx,
            )
