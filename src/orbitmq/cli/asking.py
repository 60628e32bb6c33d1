"""Flags of the commands that ask and send."""

from __future__ import annotations

import click

from orbitmq.net.address import DEFAULT_NAMESRV, NAMESRV_VARIABLE

namesrv_flag = click.option(
    "-n",
    "--namesrv",
    metavar="HOST:PORT[;...]",
    envvar=NAMESRV_VARIABLE,
    show_envvar=True,
    default=DEFAULT_NAMESRV,
    show_default=True,
    help="Name servers.",
)
