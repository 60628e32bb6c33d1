"""The root of all commands."""

from __future__ import annotations

import contextlib
import os
import sys

import click

from orbitmq import __version__
from orbitmq.cli.exits import ExitCode, explain
from orbitmq.cli.lazy import LazyGroup
from orbitmq.cli.logs import escape_unconfigured
from orbitmq.terminal import escaped

EPILOG = """\b
Examples:
  orbitmq standalone --data-dir /var/lib/orbitmq
  echo hello | orbitmq produce --topic greetings
  orbitmq consume --topic greetings --group me --from first
  orbitmq admin topic status greetings

\b
Exit codes: 0 done, 1 failed, 2 wrong usage or option, 3 port taken,
4 data folder locked, 5 data folder unusable, 6 disk full."""

PLACES = {
    "standalone": ("orbitmq.cli.serving:standalone", "Name server and broker in one process"),
    "namesrv": ("orbitmq.cli.serving:namesrv", "A name server"),
    "broker": ("orbitmq.cli.serving:broker", "A broker"),
    "controller": (
        "orbitmq.cli.controller:controller",
        "A controller: elects the masters of broker groups",
    ),
    "proxy": ("orbitmq.cli.proxy:proxy", "A gRPC proxy: clients of RocketMQ 5 reach brokers through it"),
    "cluster": (
        "orbitmq.cli.cluster:cluster",
        "Name servers, masters and slaves on this machine",
    ),
    "ping": ("orbitmq.cli.ping:ping", "Check that a name server or broker is healthy"),
    "produce": ("orbitmq.cli.produce:produce", "Send messages"),
    "consume": ("orbitmq.cli.consume:consume", "Read messages"),
    "outbox": ("orbitmq.cli.outbox:outbox", "Send the messages of a database's outbox"),
    "admin": ("orbitmq.cli.admin.app:admin", "Inspect and change brokers, topics, groups, messages"),
    "why": ("orbitmq.cli.admin.why:show", "Tell why a consumer group is behind"),
    "migrate": (
        "orbitmq.cli.admin.migrate:migrate",
        "Move a live cluster from Apache RocketMQ to OrbitMQ, or back",
    ),
    "console": ("orbitmq.cli.console:console", "Web pages to see and change clusters"),
    "delay": (
        "orbitmq.cli.delay:delay",
        "Messages that wait until they are due, for RocketMQ and Kafka",
    ),
    "job": ("orbitmq.cli.job:job", "Jobs on Spark: archive topics, search them, and more"),
    "prove": ("orbitmq.cli.prove:prove", "Kill a broker with your configuration, and report lost messages"),
    "completion": ("orbitmq.cli.completion:completion", "Print a script that completes commands in a shell"),
}


SERVERS = frozenset({"standalone", "namesrv", "broker", "controller", "proxy", "cluster"})


class Commands(LazyGroup):
    """The commands, of which the servers are for Linux."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in SERVERS and not sys.platform.startswith("linux"):
            raise click.ClickException(
                f"`orbitmq {cmd_name}` runs on Linux only: it needs fallocate and "
                "Linux record locks. Clients and administration commands work here too."
            )
        return super().get_command(ctx, cmd_name)

    def near(self, ctx: click.Context, name: str) -> str | None:
        from orbitmq.cli.admin.command import SUBJECTS

        return f"admin {name}" if name in SUBJECTS else super().near(ctx, name)


@click.group(
    cls=Commands,
    places=PLACES,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True},
)
@click.option(
    "-V",
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=lambda ctx, _, given: _show_version(ctx) if given else None,
    help="Show the version, and the compiled or interpreted build.",
)
def app() -> None:
    """OrbitMQ: a message broker that speaks Apache RocketMQ's protocol."""


def _show_version(ctx: click.Context) -> None:
    import platform

    from orbitmq.compiled import hot_modules

    compiled = all(hot_modules().values())
    build = "compiled" if compiled else "interpreted: slower, for it was installed without a C compiler"
    click.echo(f"orbitmq, version {__version__} (Python {platform.python_version()}, {build})")
    ctx.exit()


def run(arguments: list[str] | None = None) -> int:
    """Runs a command and gives its exit code. Errors that a user can act on become one line on stderr."""
    escape_unconfigured()
    try:
        result = app.main(arguments, prog_name="orbitmq", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("aborted", err=True)
        return ExitCode.INTERRUPTED
    except Exception as error:
        explained = explain(error)
        if explained is None:
            raise
        code, line = explained
        if isinstance(error, BrokenPipeError):
            # The reader of our output is gone; the interpreter shall not complain about it at its end.
            with contextlib.suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        elif line:
            click.echo(f"orbitmq: {escaped(line)}", err=True)
        return code
    return result if isinstance(result, int) else ExitCode.DONE
