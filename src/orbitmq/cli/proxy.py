"""`orbitmq proxy`: from the command line to a running gRPC proxy."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from orbitmq.cli.extras import with_extra
from orbitmq.cli.flags import (
    PORT,
    PORT_OR_NONE,
    ServerFlags,
    flag_layer,
    server_flags,
    warn_misspelt,
    warn_without_effect,
)
from orbitmq.cli.settings import Given
from orbitmq.cli.starting import announce
from orbitmq.net.address import format_address, parse_addresses
from orbitmq.options import OptionError, declared
from orbitmq.options.tls import TlsSettings
from orbitmq.proxy.options import PROXY_TABLE, ProxySettings

if TYPE_CHECKING:
    from orbitmq.broker.options import BrokerSettings
    from orbitmq.proxy.server import ProxyServer
    from orbitmq.server.lifecycle.standalone import StandaloneServer


def proxy_server(settings: ProxySettings) -> ProxyServer:
    """The server of these settings. Raises ExtraMissing."""
    with with_extra("the proxy", "proxy", {"grpc", "grpc_health", "google"}):
        from orbitmq.proxy.server import ProxyServer
    return ProxyServer(settings)


def proxy_beside(
    standalone: StandaloneServer, broker: BrokerSettings, port: int, remoting_port: int
) -> ProxyServer:
    """A gRPC proxy beside a broker, on the broker's addresses and with its TLS. Raises ExtraMissing."""
    settings = PROXY_TABLE.load([])
    settings.namesrv_addr = standalone.namesrv.address
    settings.grpc_server_port = port
    settings.remoting_listen_port = remoting_port
    settings.bind_address = broker.bind_address
    for row in declared(TlsSettings):
        setattr(settings, row.key, getattr(broker, row.key))
    settings.inner_client_authentication_credentials = broker.inner_client_authentication_credentials
    settings.authentication_enabled = broker.authentication_enabled
    settings.authorization_enabled = broker.authorization_enabled
    settings.complete()
    return proxy_server(settings)


@click.command(
    epilog="""\b
Examples:
  orbitmq proxy --namesrv 127.0.0.1:9876
  orbitmq proxy --namesrv n1:9876;n2:9876 --listen 0.0.0.0 --advertise mq.example.com:8081
  orbitmq proxy --namesrv 127.0.0.1:9876 --set tls.server.certPath=c.pem --set tls.server.keyPath=k.pem"""
)
@click.option(
    "--namesrv", "namesrvAddr", metavar="HOST:PORT[;...]", help="Name servers of the brokers behind it."
)
@click.option("--port", "grpcServerPort", type=PORT, help="Port to listen on. [default: 8081]")
@click.option(
    "--remoting-port",
    "remotingListenPort",
    type=PORT_OR_NONE,
    help="Port of clients of RocketMQ 4 and their protocol; 0 for none. [default: 8080]",
)
@server_flags("Endpoint given to clients, if it differs from the one they connect to.")
def proxy(flags: ServerFlags, **given: object) -> None:
    """A gRPC proxy: clients of RocketMQ 5 reach OrbitMQ's and Apache's brokers through it.

    Clients of RocketMQ 4, and others that speak the remoting protocol, have a port of their own.
    """
    settings = proxy_settings(flags, given)
    ports = {"gRPC": settings.grpc_server_port, "remoting": settings.remoting_listen_port}
    listeners = [
        f"{name} {format_address(settings.bind_address, port)}" for name, port in ports.items() if port
    ]
    announce([("", PROXY_TABLE, settings)], listeners)
    warn_misspelt(os.environ, PROXY_TABLE)
    warn_without_effect(PROXY_TABLE, settings)
    from orbitmq.server.lifecycle.process import run, serve

    server = proxy_server(settings)
    run(
        serve(
            server,
            ready_line="ready: proxy {server.addresses}, name servers " + settings.namesrv_addr,
            ready_file=flags.ready_file,
            settings=[settings],
        )
    )


def proxy_settings(flags: ServerFlags, given: Given) -> ProxySettings:
    """The settings of a proxy. Raises OptionError, BadAddress."""
    layers = [layer.for_broker() for layer in flags.layers()]
    settings = PROXY_TABLE.load([*layers, flag_layer({**given, "bindAddress": flags.listen})])
    if not settings.namesrv_addr:
        raise OptionError("a proxy needs the name servers of its brokers: --namesrv HOST:PORT")
    settings.namesrv_addr = ";".join(parse_addresses(settings.namesrv_addr))
    if flags.advertise is not None:
        host, port = flags.advertise
        settings.advertised_endpoints = format_address(host, port or settings.grpc_server_port)
    return settings
