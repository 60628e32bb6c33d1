"""`orbitmq console`: the web console, alone or beside the servers of `orbitmq standalone --console`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from orbitmq.access import Access, access_flags, read_credentials
from orbitmq.admin.commands.users import password_file_flag, read_password
from orbitmq.cli.flags import PORT, clear_ready_file
from orbitmq.cli.logs import FORMATS, LEVELS, set_up

if TYPE_CHECKING:
    from orbitmq.console.security.roles import Role
    from orbitmq.console.security.single_sign_on import Provider
    from orbitmq.console.server import ConsoleServer
    from orbitmq.console.settings import ConsoleSettings
    from orbitmq.server.lifecycle.broker_server import BrokerServer
    from orbitmq.server.lifecycle.namesrv import NamesrvServer
    from orbitmq.server.lifecycle.standalone import StandaloneServer

NEEDED = frozenset({"starlette", "uvicorn", "msgspec"})
"""The modules of the extra `console`."""
DEFAULT_PORT = 8080
DEFAULT_FOLDER = "~/orbitmq-console"


class ConsoleMissing(click.ClickException):
    """The extra is not installed."""

    def __init__(self, missing: str) -> None:
        super().__init__(
            f"the console needs {missing}, which is not installed: pip install 'orbitmq[console]'"
        )


def console_server(settings: ConsoleSettings) -> ConsoleServer:
    """The server of these settings. Raises ConsoleMissing."""
    try:
        from orbitmq.console.server import ConsoleServer
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in NEEDED:
            raise
        raise ConsoleMissing(missing) from None
    return ConsoleServer(settings)


class StandaloneWithConsole:
    """Starts the console last and stops it first."""

    def __init__(self, standalone: StandaloneServer, console: ConsoleServer) -> None:
        self.standalone = standalone
        self.console = console

    @property
    def namesrv(self) -> NamesrvServer:
        """The name server."""
        return self.standalone.namesrv

    @property
    def broker(self) -> BrokerServer:
        """The broker."""
        return self.standalone.broker

    async def start(self) -> None:
        """Raises what one of them raises; then nothing is left running."""
        await self.standalone.start()
        try:
            await self.console.start()
        except BaseException:
            await self.standalone.stop()
            raise

    async def stop(self) -> None:
        """Ends all three."""
        await self.console.stop()
        await self.standalone.stop()


def add_console(standalone: StandaloneServer, root: Path, port: int) -> StandaloneWithConsole:
    """The servers with a console on the loopback; its files are in a folder of the data folder.

    It asks the broker as the user of ORBITMQ_ACCESS_KEY, where that is set.
    """
    from orbitmq.console.settings import ConsoleSettings

    secret_file = os.environ.get("ORBITMQ_SECRET_FILE")
    given = {"access_key": os.environ.get("ORBITMQ_ACCESS_KEY"), "secret_file": secret_file}
    access = Access(read_credentials(given, os.environ))
    settings = ConsoleSettings(
        {"standalone": standalone.namesrv.address}, root / "console", port=port, access=access
    )
    return StandaloneWithConsole(standalone, console_server(settings))


@click.group(
    invoke_without_command=True,
    epilog="""\b
Examples:
  orbitmq console --namesrv 127.0.0.1:9876
  orbitmq console --cluster east=ns1:9876 --cluster "west=ns2:9876;ns3:9876" --port 8081
  orbitmq console set-user ann --role operator
  orbitmq console --listen 0.0.0.0 --https-cert cert.pem --https-key key.pem
  orbitmq console --oidc-issuer https://login.example --oidc-client-id mq --oidc-secret-file secret.txt""",
)
@access_flags
@click.option(
    "--cluster",
    "named",
    metavar="NAME=HOST:PORT[;...]",
    multiple=True,
    help="Name servers of a cluster, and its name in the pages. Repeatable.",
)
@click.option(
    "--listen",
    metavar="HOST",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on. Others than the loopback need users and HTTPS.",
)
@click.option("--port", type=PORT, default=DEFAULT_PORT, show_default=True, help="Port to listen on.")
@click.option("--https-cert", type=click.Path(path_type=Path), help="Certificate of the pages (PEM).")
@click.option("--https-key", type=click.Path(path_type=Path), help="Private key of --https-cert (PEM).")
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    default=DEFAULT_FOLDER,
    show_default=True,
    help="Folder for users and the audit log.",
)
@click.option(
    "--history",
    "history_file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="SQLite file that keeps the charts of 24 hours over restarts; without it they begin anew.",
)
@click.option(
    "--oidc-issuer",
    metavar="URL",
    help="OpenID Connect provider at which users log in; needs the extra oidc. Its address of the console is "
    "URL-OF-THE-CONSOLE/api/sign-on/callback.",
)
@click.option("--oidc-client-id", metavar="ID", help="The console's id at the provider.")
@click.option(
    "--oidc-secret-file",
    type=click.Path(path_type=Path),
    help="File with the console's secret at the provider.",
)
@click.option(
    "--oidc-role-claim",
    metavar="NAME",
    default="roles",
    show_default=True,
    help="Claim that gives the role: a text or a list; dots go into objects, as in realm_access.roles.",
)
@click.option(
    "--oidc-role",
    "oidc_roles",
    metavar="VALUE=ROLE",
    multiple=True,
    help="A value of the claim, and its role: viewer, operator or admin. Repeatable; without it the "
    "values are the names of roles.",
)
@click.option(
    "--oidc-name-claim",
    metavar="NAME",
    default="preferred_username",
    show_default=True,
    help="Claim with the user's name; email or sub where it is missing.",
)
@click.option(
    "--oidc-session-minutes",
    type=click.IntRange(1, 720),
    default=60,
    show_default=True,
    help="Time after which a user has to log in again: until then the role is that of the login.",
)
@click.option(
    "--ready-file", type=click.Path(path_type=Path), help="File that exists while the console is ready."
)
@click.option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True)
@click.option("--log-format", type=click.Choice(FORMATS), default="text", show_default=True)
@click.pass_context
def console(
    ctx: click.Context,
    namesrv: str,
    access: Access,
    named: tuple[str, ...],
    listen: str,
    port: int,
    https_cert: Path | None,
    https_key: Path | None,
    data_dir: Path,
    history_file: Path | None,
    oidc_issuer: str | None,
    oidc_client_id: str | None,
    oidc_secret_file: Path | None,
    oidc_role_claim: str,
    oidc_roles: tuple[str, ...],
    oidc_name_claim: str,
    oidc_session_minutes: int,
    ready_file: Path | None,
    log_level: str,
    log_format: str,
) -> None:
    """Web pages and an HTTP API to see and change clusters, of OrbitMQ and of Apache RocketMQ."""
    if ctx.invoked_subcommand is not None:
        return
    set_up(log_level, log_format)
    clear_ready_file(ready_file)
    from orbitmq.console.settings import ConsoleSettings
    from orbitmq.server.lifecycle.process import run, serve

    clusters = _clusters(named)
    if not clusters or ctx.get_parameter_source("namesrv") != ParameterSource.DEFAULT:
        clusters = {"default": namesrv, **clusters}
    server = console_server(
        ConsoleSettings(
            clusters,
            data_dir.expanduser(),
            listen,
            port,
            _file(https_cert),
            _file(https_key),
            access,
            _provider(
                oidc_issuer,
                oidc_client_id,
                _file(oidc_secret_file),
                oidc_role_claim,
                _roles(oidc_roles),
                oidc_name_claim,
                oidc_session_minutes,
            ),
            history_file=history_file.expanduser() if history_file is not None else None,
        )
    )
    run(serve(server, ready_line="ready: console {server.url}", ready_file=ready_file))


@console.command(
    "set-user",
    epilog="""\b
Examples:
  orbitmq console set-user ann --role admin
  orbitmq console set-user bob --role viewer --password-file bob.txt --data-dir /var/lib/orbitmq-console""",
)
@click.argument("name")
@click.option("--role", type=click.Choice(["viewer", "operator", "admin"]), required=True)
@password_file_flag
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    default=DEFAULT_FOLDER,
    show_default=True,
    help="Folder of the console.",
)
def set_user(name: str, role: str, password_file: str | None, data_dir: Path) -> None:
    """Add a user of the console, or change role and password of one. From the first user on, all log in."""
    from orbitmq.console.security.passwords import WeakPassword
    from orbitmq.console.security.roles import parse_role
    from orbitmq.console.security.users import set_user as write

    password = read_password(password_file, asked=True)
    assert password is not None
    path = data_dir.expanduser() / "users"
    try:
        is_new = write(path, name, parse_role(role), password)
    except WeakPassword as error:
        raise click.UsageError(str(error)) from None
    click.echo(f"{'added' if is_new else 'changed'} user {name}, {role}, in {path}")


def _clusters(named: tuple[str, ...]) -> dict[str, str]:
    clusters = {}
    for text in named:
        name, equals, namesrv = text.partition("=")
        if not equals or not namesrv:
            raise click.UsageError(f"--cluster {text}: expected NAME=HOST:PORT")
        if name in clusters:
            raise click.UsageError(f"--cluster {name} is given twice")
        clusters[name] = namesrv
    return clusters


def _provider(
    issuer: str | None,
    client_id: str | None,
    secret_file: Path | None,
    role_claim: str,
    roles: dict[str, Role],
    name_claim: str,
    session_minutes: int,
) -> Provider | None:
    from orbitmq.console.security.single_sign_on import Provider

    if not issuer:
        if client_id or secret_file or roles:
            raise click.UsageError("--oidc-client-id, --oidc-secret-file and --oidc-role need --oidc-issuer")
        return None
    if not client_id or secret_file is None:
        raise click.UsageError("--oidc-issuer needs --oidc-client-id and --oidc-secret-file")
    secret = secret_file.read_text().strip()
    if not secret:
        raise click.UsageError(f"{secret_file} is empty")
    return Provider(
        *(issuer, client_id, secret, role_claim, roles, name_claim), session_seconds=60.0 * session_minutes
    )


def _roles(given: tuple[str, ...]) -> dict[str, Role]:
    from orbitmq.console.security.roles import parse_role

    roles = {}
    for text in given:
        value, equals, role = text.rpartition("=")
        if not equals or not value:
            raise click.UsageError(f"--oidc-role {text}: expected VALUE=ROLE")
        try:
            roles[value] = parse_role(role)
        except ValueError as error:
            raise click.UsageError(f"--oidc-role {text}: {error}") from None
    return roles


def _file(path: Path | None) -> Path | None:
    if path is not None and not path.is_file():
        raise click.UsageError(f"{path} is no file")
    return path
