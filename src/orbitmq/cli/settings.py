"""Settings of brokers and name servers from flags, --set, environment and file."""

from __future__ import annotations

from collections.abc import Mapping

from orbitmq.broker.options import BROKER_TABLE, BrokerSettings
from orbitmq.cli.flags import ServerFlags, flag_layer
from orbitmq.nameserver.options import NAMESRV_TABLE, NamesrvSettings
from orbitmq.net.address import format_address, parse_addresses
from orbitmq.net.errors import BadAddress
from orbitmq.options import Layer, OptionError, declared
from orbitmq.options.tls import TlsSettings

Given = Mapping[str, object]
"""Flags of one command by the name of the option they set; None where a flag was not given."""


def broker_settings(flags: ServerFlags, given: Given) -> BrokerSettings:
    """The settings of a broker. Raises OptionError, BadAddress."""
    settings = _broker(flags, given, [layer.for_broker() for layer in flags.layers()])
    if not settings.namesrv_addr:
        raise OptionError(
            "a broker needs a name server to register with: --namesrv HOST:PORT "
            "(`orbitmq standalone` runs one of its own)"
        )
    return settings


def namesrv_settings(flags: ServerFlags, given: Given) -> NamesrvSettings:
    """The settings of a name server. Raises OptionError."""
    return _namesrv(flags, given, [layer.for_namesrv() for layer in flags.layers()])


def standalone_settings(
    flags: ServerFlags, namesrv_port: int | None, given: Given
) -> tuple[BrokerSettings, NamesrvSettings]:
    """The settings of both servers; `given` is the broker's. Raises OptionError, BadAddress."""
    layers = [layer.split(BROKER_TABLE.has, NAMESRV_TABLE.has) for layer in flags.layers()]
    broker = _broker(flags, given, [first for first, _ in layers])
    # A user who opens the broker to a network, by whatever source, means the name server, too.
    listen = flags.listen or (broker.bind_address if "bindAddress" in broker.sources else None)
    namesrv = _namesrv(
        ServerFlags(listen=listen), {"listenPort": namesrv_port}, [second for _, second in layers]
    )
    _share_tls(broker, namesrv)
    if broker.namesrv_addr:
        own = format_address(_reachable(namesrv.bind_address), namesrv.listen_port)
        others = [address for address in parse_addresses(broker.namesrv_addr) if address != own]
        broker.namesrv_addr = ";".join([own, *others])
    if namesrv.listen_port in (broker.listen_port, broker.listen_port - 2):
        raise OptionError(
            f"the name server's port {namesrv.listen_port} is one of the broker's: it uses "
            f"{broker.listen_port} and {broker.listen_port - 2}"
        )
    return broker, namesrv


def _share_tls(broker: BrokerSettings, namesrv: NamesrvSettings) -> None:
    """TLS options of the broker apply to the name server, too, and to connections between the two."""
    for row in declared(TlsSettings):
        if row.name in broker.sources and row.name not in namesrv.sources:
            setattr(namesrv, row.key, getattr(broker, row.key))
            namesrv.sources[row.name] = broker.sources[row.name]
    if namesrv.tls_server_mode == "enforcing":
        broker.tls_enable = True


def _broker(flags: ServerFlags, given: Given, layers: list[Layer]) -> BrokerSettings:
    host, port = flags.advertise or (None, None)
    own = flag_layer({**given, "bindAddress": flags.listen, "brokerIP1": host, "advertisedPort": port})
    settings = BROKER_TABLE.load([*layers, own])
    if settings.namesrv_addr:
        try:
            parse_addresses(settings.namesrv_addr)
        except BadAddress as error:
            raise OptionError(f"{settings.sources['namesrvAddr']}: namesrvAddr: {error}") from None
    if flags.config is not None and flags.config.suffix != ".toml":
        settings.broker_config_path = str(flags.config.absolute())
    return settings


def _namesrv(flags: ServerFlags, given: Given, layers: list[Layer]) -> NamesrvSettings:
    return NAMESRV_TABLE.load([*layers, flag_layer({**given, "bindAddress": flags.listen})])


def _reachable(listen: str) -> str:
    """The address at which this process reaches a server that listens on `listen`."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(listen, listen)
