"""`orbitmq completion`: the script that makes a shell complete commands, options and choices."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

HOW = """\b
Install it once:
  bash  orbitmq completion bash > ~/.local/share/bash-completion/completions/orbitmq
  zsh   orbitmq completion zsh > "${fpath[1]}/_orbitmq"
  fish  orbitmq completion fish > ~/.config/fish/completions/orbitmq.fish"""


@click.command(epilog=HOW)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a script that completes orbitmq's commands in SHELL."""
    from orbitmq.cli.app import app

    script = get_completion_class(shell)
    assert script is not None
    click.echo(script(app, {}, "orbitmq", "_ORBITMQ_COMPLETE").source())
