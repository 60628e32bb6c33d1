"""Flags that servers share, and the sources of options: flag over --set over environment over file."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from orbitmq.cli.logs import FORMATS, LEVELS, set_up
from orbitmq.flags import all_of
from orbitmq.net.address import NAMESRV_VARIABLE, parse_address
from orbitmq.net.errors import BadAddress
from orbitmq.options import (
    Layer,
    OptionError,
    OptionTable,
    Settings,
    from_assignments,
    from_environment,
    read_file,
)

log = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])
S = TypeVar("S", bound=Settings)


def _host_and_port(value: str) -> tuple[str, int | None]:
    """HOST, HOST:PORT, or [IPV6]:PORT. Raises BadAddress."""
    text = value.strip()
    if text.count(":") == 1 or "]:" in text:
        return parse_address(text)
    host = text.removeprefix("[").removesuffix("]")
    if not host or any(mark in host for mark in "/ ;,"):
        raise BadAddress(f"{value!r} is not a host with or without a port")
    return host, None


if TYPE_CHECKING:
    _AddressType = click.ParamType[tuple[str, int | None]]
    _HostType = click.ParamType[str]
else:  # older releases have no parameter there
    _AddressType = _HostType = click.ParamType


class Advertised(_AddressType):
    """HOST, HOST:PORT, or [IPV6]:PORT."""

    name = "HOST[:PORT]"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int | None]:
        try:
            return value if isinstance(value, tuple) else _host_and_port(value)
        except BadAddress as error:
            self.fail(str(error), param, ctx)


class Listened(_HostType):
    """HOST, of which the port is another option."""

    name = "HOST"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            host, port = _host_and_port(value)
        except BadAddress as error:
            self.fail(str(error), param, ctx)
        if port is not None:
            flags = [flag for one in ctx.command.params for flag in one.opts] if ctx else []
            ports = " and ".join(flag for flag in flags if flag in LISTENED_PORTS)
            self.fail(f"{value!r} has a port: give {host} alone, and the port with {ports}", param, ctx)
        return host


LISTENED_PORTS = ("--port", "--namesrv-port", "--broker-port", "--metrics-port")
"""Options for ports at the address of `--listen`."""


PORT = click.IntRange(1, 65535)
PORT_OR_NONE = click.IntRange(0, 65535)
BROKER_PORT = click.IntRange(3, 65534)
"""The VIP port, 2 below, and the port of replication, 1 above, have to be ports as well."""


@dataclass(frozen=True, slots=True)
class ServerFlags:
    """The command-line flags that all servers share."""

    listen: str | None = None
    advertise: tuple[str, int | None] | None = None
    """Host and port; the port is the one listened on where it is None."""
    config: Path | None = None
    assignments: tuple[str, ...] = ()
    """Of `--set`, as they were given."""
    ready_file: Path | None = None
    log_level: str | None = None
    init: bool = False
    """The data folder may hold other files."""

    def check_folder(self, folder: Path, names: Iterable[str]) -> None:
        """Raises ForeignFolder for a folder of something else, unless `--init` was given."""
        from orbitmq.cli.starting import check_data_folder

        if not self.init:
            check_data_folder(folder, names, (self.config, self.ready_file))

    def layers(self, environment: Mapping[str, str] | None = None) -> list[Layer]:
        """The sources that every server reads, the weakest first; flags come on top. Raises OptionError."""
        environment = os.environ if environment is None else environment
        found = []
        if namesrv := environment.get(NAMESRV_VARIABLE):
            # Apache's own variable: weaker than everything, and of interest to brokers only.
            found.append(Layer(NAMESRV_VARIABLE, {}, lenient=True, broker={"namesrvAddr": namesrv}))
        if self.config is not None:
            found.append(read_file(self.config))
        found.append(from_environment(environment))
        found.append(from_assignments(self.assignments))
        if self.log_level is not None:
            found.append(Layer("command line", {"logLevel": self.log_level}))
        return found


LOG_FORMAT = click.option(
    "--log-format",
    type=click.Choice(FORMATS),
    default="text",
    help="Lines for people, or one JSON object per line for collectors.",
)
FLAGS = (
    click.option(
        "--listen",
        type=Listened(),
        help="Address to listen on: 0.0.0.0 for all IPv4 addresses, :: for all addresses. [default: "
        "127.0.0.1]",
    ),
    click.option(
        "--config",
        type=click.Path(path_type=Path),
        help="File of options: TOML if it ends in .toml, else properties as in Apache's broker.conf.",
    ),
    click.option(
        "--set",
        "assignments",
        metavar="NAME=VALUE",
        multiple=True,
        help="Set an option by its name in Apache RocketMQ. Repeatable.",
    ),
    click.option(
        "--ready-file", type=click.Path(path_type=Path), help="File that exists while the server is ready."
    ),
    click.option(
        "--init",
        is_flag=True,
        help="Start in a data folder that holds other files but no broker data yet.",
    ),
    click.option(
        "--log-level",
        type=click.Choice(LEVELS),
        help="The option logLevel: can be changed while the server runs. [default: info]",
    ),
    LOG_FORMAT,
)


def server_flags(
    advertise_help: str = "Address given to clients, if it differs from the listen address.",
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Adds what every server takes: the command gets it as one ServerFlags, with logging set up by then."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(log_format: str, **values: Any) -> None:
            common = {row.name: values.pop(row.name) for row in fields(ServerFlags)}
            flags = ServerFlags(**common)
            set_up(flags.log_level or "info", log_format)
            clear_ready_file(flags.ready_file)
            command(flags, **values)

        advertise = click.option("--advertise", type=Advertised(), help=advertise_help)
        return all_of(FLAGS[0], advertise, *FLAGS[1:])(run)

    return decorate


def process_flags(what: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds --ready-file, --log-level and --log-format for a process that is no server of the protocol.

    The command gets `ready_file`, with logging set up by then.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def run(*args: Any, log_level: str, log_format: str, **values: Any) -> Any:
            set_up(log_level, log_format)
            clear_ready_file(values["ready_file"])
            return command(*args, **values)

        return all_of(
            click.option(
                "--ready-file",
                type=click.Path(path_type=Path),
                help=f"File that exists while {what} is ready.",
            ),
            click.option("--log-level", type=click.Choice(LEVELS), default="info", help="Level of logs."),
            LOG_FORMAT,
        )(run)

    return decorate


def data_dir_flag(name: str, about: str) -> Callable[[F], F]:
    """`--data-dir`, which the command gets as `name`, and as an absolute path."""
    return click.option(
        "--data-dir",
        name,
        type=click.Path(),
        callback=lambda _, __, value: None if value is None else os.path.abspath(value),
        help=about,
    )


def clear_ready_file(path: Path | None) -> None:
    """Takes away what an earlier server left that was killed; what scripts wait for has to be new.

    Raises OptionError where no file can be made.
    """
    if path is None:
        return
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise OptionError(f"--ready-file {path}: {error.strerror}") from None
    if not path.absolute().parent.is_dir():
        raise OptionError(f"--ready-file {path}: there is no folder {path.absolute().parent}")


def flag_layer(values: Mapping[str, object]) -> Layer:
    """Flags that were given, by the name of the option they set."""
    return Layer("command line", {name: value for name, value in values.items() if value is not None})


def warn_without_effect(table: OptionTable[S], settings: S) -> None:
    """One warning that lists what was set and changes nothing."""
    rows = table.set_without_effect(settings)
    if rows:
        listed = "; ".join(f"{row.name} ({row.reason})" for row in rows)
        log.warning("set without effect: %s", listed)


def warn_misspelt(environment: Mapping[str, str], *tables: OptionTable[Any]) -> None:
    """Warns of variables that are nearly an option's.

    Others with the same prefix are not ours to judge: Kubernetes makes some for every service of a name.
    """
    known = {row.environment_variable for table in tables for row in table.rows}
    for variable in environment:
        bare = variable.replace("ORBITMQ_NAMESRV_", "ORBITMQ_", 1)
        if not variable.startswith("ORBITMQ_") or variable in known or bare in known:
            continue
        near = get_close_matches(variable, known, n=1, cutoff=0.9)
        if near:
            log.warning("environment variable %s sets no option; did you mean %s?", variable, near[0])
