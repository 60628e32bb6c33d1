"""`orbitmq controller`: from the command line to a running controller."""

from __future__ import annotations

import os

import click

from orbitmq.cli.flags import (
    PORT,
    ServerFlags,
    flag_layer,
    server_flags,
    warn_misspelt,
    warn_without_effect,
)
from orbitmq.cli.settings import Given
from orbitmq.cli.starting import announce, controller_listeners
from orbitmq.controller.options import CONTROLLER_TABLE, ControllerSettings
from orbitmq.net.address import format_address
from orbitmq.options import Layer, OptionError


@click.command(
    epilog="""\b
Examples:
  orbitmq controller --store etcd://127.0.0.1:2379
  orbitmq controller --store etcd://e1:2379,e2:2379,e3:2379 --listen 0.0.0.0 --advertise c1.example.com
  orbitmq controller --store zookeeper://z1:2181,z2:2181,z3:2181
  orbitmq controller --store etcd://e1:2379 --set storeCaPath=ca.pem --set storePrefix=/orbitmq/east"""
)
@click.option(
    "--store",
    "storeAddress",
    metavar="etcd|zookeeper://HOST:PORT[,...]",
    help="Members of the consensus store that keeps the decisions.",
)
@click.option("--port", "listenPort", type=PORT, help="Port to listen on. [default: 19876]")
@server_flags("Address given to brokers and tools, if it differs from the listen address.")
def controller(flags: ServerFlags, **given: object) -> None:
    """A controller: it elects the masters of broker groups. Several can run side by side; one leads."""
    settings = controller_settings(flags, given)
    announce([("", CONTROLLER_TABLE, settings)], controller_listeners(settings))
    warn_misspelt(os.environ, CONTROLLER_TABLE)
    warn_without_effect(CONTROLLER_TABLE, settings)
    from orbitmq.server.controller.server import ControllerServer
    from orbitmq.server.controller.stores import open_store
    from orbitmq.server.lifecycle.process import run, serve

    store = open_store(settings)
    ready_line = "ready: controller {server.address}, store " + settings.store_address.replace(
        "{", "{{"
    ).replace("}", "}}")
    server = ControllerServer(settings, store)
    run(serve(server, ready_line=ready_line, ready_file=flags.ready_file, settings=[settings]))


def controller_settings(flags: ServerFlags, given: Given) -> ControllerSettings:
    """The settings of a controller. Raises OptionError."""
    layers = [Layer(one.source, one.values, one.lenient, lines=one.lines) for one in flags.layers()]
    settings = CONTROLLER_TABLE.load([*layers, flag_layer({**given, "bindAddress": flags.listen})])
    if not settings.store_address:
        raise OptionError(
            "a controller needs a consensus store: --store etcd://HOST:PORT (Debian's package etcd-server "
            "has one) or --store zookeeper://HOST:PORT"
        )
    if flags.advertise is not None:
        host, port = flags.advertise
        settings.advertised_address = format_address(host, port or settings.listen_port)
    return settings
