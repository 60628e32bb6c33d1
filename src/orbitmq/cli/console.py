"""`orbitmq console`: the web console, alone or beside the servers of `orbitmq standalone --console`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from orbitmq.access import Access
from orbitmq.cli.admin.users import password_file_flag, read_password
from orbitmq.cli.extras import with_extra
from orbitmq.cli.flags import PORT, Listened, process_flags
from orbitmq.flags import access_flags, max_body_flag, read_credentials

if TYPE_CHECKING:
    from orbitmq.console.security.roles import Role
    from orbitmq.console.security.single_sign_on import Provider
    from orbitmq.console.server import ConsoleServer
    from orbitmq.console.settings import ConsoleSettings
    from orbitmq.server.lifecycle.standalone import StandaloneServer

NEEDED = ("the console", "console", frozenset({"starlette", "uvicorn", "msgspec"}))
DEFAULT_PORT = 8080
DEFAULT_FOLDER = "~/orbitmq-console"


def console_server(settings: ConsoleSettings) -> ConsoleServer:
    """The server of these settings. Raises ExtraMissing."""
    with with_extra(*NEEDED):
        from orbitmq.console.server import ConsoleServer
    return ConsoleServer(settings)


def console_beside(
    standalone: StandaloneServer,
    root: Path,
    port: int,
    max_inflated_body_bytes: int,
    masked_fields: tuple[str, ...] = (),
    delay_port: int | None = None,
) -> ConsoleServer:
    """A console on the loopback, beside a broker; its files are in a folder of the data folder.

    It asks the broker as the user of ORBITMQ_ACCESS_KEY, where that is set. Raises ExtraMissing.
    """
    with with_extra(*NEEDED):
        from orbitmq.console.settings import ConsoleSettings

    secret_file = os.environ.get("ORBITMQ_SECRET_FILE")
    given = {"access_key": os.environ.get("ORBITMQ_ACCESS_KEY"), "secret_file": secret_file}
    access = Access(read_credentials(given, os.environ))
    settings = ConsoleSettings(
        {"standalone": standalone.namesrv.address},
        root / "console",
        port=port,
        access=access,
        max_inflated_body_bytes=max_inflated_body_bytes,
        masked_fields=masked_fields,
        delay_services={} if delay_port is None else {"standalone": f"http://127.0.0.1:{delay_port}"},
    )
    return console_server(settings)


def _data_dir_flag(about: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        "--data-dir",
        type=click.Path(path_type=Path),
        default=DEFAULT_FOLDER,
        callback=lambda _, __, path: path.expanduser(),
        help=about,
    )


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
    type=Listened(),
    default="127.0.0.1",
    help="Address to listen on. Others than the loopback need users and HTTPS.",
)
@click.option("--port", type=PORT, default=DEFAULT_PORT, help="Port to listen on.")
@click.option("--https-cert", type=click.Path(path_type=Path), help="Certificate of the pages (PEM).")
@click.option("--https-key", type=click.Path(path_type=Path), help="Private key of --https-cert (PEM).")
@_data_dir_flag("Folder for users and the audit log.")
@click.option(
    "--history",
    "history_file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="SQLite file that keeps the charts of 24 hours over restarts; without it they begin anew.",
)
@max_body_flag()
@click.option(
    "--mask",
    "masked_fields",
    metavar="NAME",
    multiple=True,
    help="Field whose value nobody may read: in bodies of JSON, or decoded by a schema, and in properties. "
    "Bodies in which it cannot be found for certain are not shown. Repeatable.",
)
@click.option(
    "--delay",
    "delays",
    metavar="[NAME=]URL",
    multiple=True,
    help="API of a delay service, http://HOST:PORT, for the page of what waits; NAME is its cluster, by "
    "default the first. Repeatable.",
)
@click.option(
    "--delay-token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File whose first line is the token of --delay.",
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
    "--oidc-bodies",
    "oidc_body_readers",
    metavar="VALUE",
    multiple=True,
    help="A value of the claim whose users may read bodies of messages. Repeatable; without it all may.",
)
@click.option(
    "--oidc-name-claim",
    metavar="NAME",
    default="preferred_username",
    help="Claim with the user's name; email or sub where it is missing.",
)
@click.option(
    "--oidc-session-minutes",
    type=click.IntRange(1, 720),
    default=60,
    help="Time after which a user has to log in again: until then the role is that of the login.",
)
@process_flags("the console")
@click.pass_context
def console(
    ctx: click.Context,
    /,
    namesrv: str,
    access: Access,
    named: tuple[str, ...],
    listen: str,
    port: int,
    https_cert: Path | None,
    https_key: Path | None,
    data_dir: Path,
    history_file: Path | None,
    max_inflated_body_bytes: int,
    masked_fields: tuple[str, ...],
    delays: tuple[str, ...],
    delay_token_file: Path | None,
    ready_file: Path | None,
    **oidc: Any,
) -> None:
    """Web pages and an HTTP API to see and change clusters, of OrbitMQ and of Apache RocketMQ."""
    if ctx.invoked_subcommand is not None:
        return
    with with_extra(*NEEDED):
        from orbitmq.console.settings import ConsoleSettings
    from orbitmq.server.lifecycle.process import run, serve

    clusters = _clusters(named)
    if not clusters or ctx.get_parameter_source("namesrv") != ParameterSource.DEFAULT:
        clusters = {"default": namesrv, **clusters}
    server = console_server(
        ConsoleSettings(
            clusters,
            data_dir,
            listen,
            port,
            _file(https_cert),
            _file(https_key),
            access,
            _provider(**oidc),
            max_inflated_body_bytes=max_inflated_body_bytes,
            history_file=history_file.expanduser() if history_file is not None else None,
            masked_fields=masked_fields,
            delay_services=_delays(delays, next(iter(clusters))),
            delay_token=_first_line(delay_token_file),
        )
    )
    run(serve(server, ready_line="ready: console {server.url}", ready_file=ready_file))


@console.command(
    "set-user",
    epilog="""\b
Examples:
  orbitmq console set-user ann --role admin
  orbitmq console set-user bob --role viewer --no-bodies
  orbitmq console set-user bob --role viewer --password-file bob.txt --data-dir /var/lib/orbitmq-console""",
)
@click.argument("name")
@click.option("--role", type=click.Choice(["viewer", "operator", "admin"]), required=True)
@click.option(
    "--bodies/--no-bodies", "reads_bodies", default=True, help="Let the user read bodies of messages, or not."
)
@password_file_flag
@_data_dir_flag("Folder of the console.")
def set_user(name: str, role: str, reads_bodies: bool, password_file: str | None, data_dir: Path) -> None:
    """Add a user of the console, or change role and password of one. From the first user on, all log in."""
    from orbitmq.console.security.passwords import WeakPassword
    from orbitmq.console.security.roles import parse_role
    from orbitmq.console.security.users import set_user as write

    password = read_password(password_file, asked=True)
    assert password is not None
    path = data_dir / "users"
    try:
        is_new = write(path, name, parse_role(role), password, reads_bodies=reads_bodies)
    except WeakPassword as error:
        raise click.UsageError(str(error)) from None
    right = "" if reads_bodies else ", who may not read bodies"
    click.echo(f"{'added' if is_new else 'changed'} user {name}, {role}{right}, in {path}")


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


def _delays(given: tuple[str, ...], first: str) -> dict[str, str]:
    """Addresses of delay services by cluster. Raises UsageError."""
    found = {}
    for text in given:
        name, mark, rest = text.partition("://")
        cluster, equals, scheme = name.rpartition("=")
        if not mark or scheme not in ("http", "https") or not rest:
            raise click.UsageError(f"--delay {text}: expected http://HOST:PORT or NAME=http://HOST:PORT")
        cluster = cluster if equals else first
        if cluster in found:
            raise click.UsageError(f"--delay for {cluster} is given twice")
        found[cluster] = f"{scheme}://{rest}"
    return found


def _first_line(file: Path | None) -> str | None:
    return None if file is None else file.read_text().partition("\n")[0].strip()


def _provider(
    oidc_issuer: str | None,
    oidc_client_id: str | None,
    oidc_secret_file: Path | None,
    oidc_role_claim: str,
    oidc_roles: tuple[str, ...],
    oidc_body_readers: tuple[str, ...],
    oidc_name_claim: str,
    oidc_session_minutes: int,
) -> Provider | None:
    """The provider that the flags name. Raises UsageError."""
    from orbitmq.console.security.single_sign_on import Provider

    secret_file, roles = _file(oidc_secret_file), _roles(oidc_roles)
    if not oidc_issuer:
        if oidc_client_id or secret_file or roles or oidc_body_readers:
            raise click.UsageError(
                "--oidc-client-id, --oidc-secret-file, --oidc-role and --oidc-bodies need --oidc-issuer"
            )
        return None
    if not oidc_client_id or secret_file is None:
        raise click.UsageError("--oidc-issuer needs --oidc-client-id and --oidc-secret-file")
    secret = secret_file.read_text().strip()
    if not secret:
        raise click.UsageError(f"{secret_file} is empty")
    return Provider(
        *(oidc_issuer, oidc_client_id, secret, oidc_role_claim, roles, oidc_name_claim),
        session_seconds=60.0 * oidc_session_minutes,
        body_readers=frozenset(oidc_body_readers),
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
