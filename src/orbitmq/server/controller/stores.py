"""The consensus store that an address names."""

from __future__ import annotations

from orbitmq.controller.options import ControllerSettings
from orbitmq.net.address import parse_addresses
from orbitmq.net.errors import BadAddress
from orbitmq.options import OptionError
from orbitmq.server.controller.consensus import ConsensusStore

ETCD = "etcd"


def open_store(settings: ControllerSettings) -> ConsensusStore:
    """The store of `storeAddress`, not connected yet.

    Raises OptionError for an address that names none, or if its client library is not installed.
    """
    source = settings.sources.get("storeAddress", "settings")
    kind, mark, listed = settings.store_address.partition("://")
    if not mark or kind != ETCD:
        raise OptionError(
            f"{source}: storeAddress {settings.store_address!r} is not etcd://HOST:PORT[,HOST:PORT...]"
        )
    try:
        endpoints = parse_addresses(listed)
    except BadAddress as error:
        raise OptionError(f"{source}: storeAddress: {error}") from None
    try:
        from orbitmq.server.controller.etcd import EtcdStore, EtcdTls
    except ModuleNotFoundError as error:
        raise OptionError(
            f"the client of etcd is not installed ({error.name}): pip install 'orbitmq[controller]'"
        ) from None
    tls = None
    if settings.store_ca_path:
        tls = EtcdTls(settings.store_ca_path, settings.store_cert_path, settings.store_key_path)
    return EtcdStore(
        endpoints,
        prefix=settings.store_prefix,
        group=settings.controller_group,
        timeout_ms=settings.store_timeout_ms,
        tls=tls,
    )
