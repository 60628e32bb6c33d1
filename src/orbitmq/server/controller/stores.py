"""The consensus store that an address names."""

from __future__ import annotations

from orbitmq.controller.options import ConsensusSettings
from orbitmq.extras import lacking
from orbitmq.net.address import parse_addresses
from orbitmq.net.errors import BadAddress
from orbitmq.options import OptionError
from orbitmq.server.controller.consensus import ConsensusStore

ETCD = "etcd"
ZOOKEEPER = "zookeeper"


def open_store(settings: ConsensusSettings) -> ConsensusStore:
    """The store of `storeAddress`, not connected yet.

    Raises OptionError for an address that names none, or if its client library is not installed.
    """
    source = settings.sources.get("storeAddress", "settings")
    kind, mark, listed = settings.store_address.partition("://")
    if not mark or kind not in (ETCD, ZOOKEEPER):
        raise OptionError(
            f"{source}: storeAddress {settings.store_address!r} is neither etcd://HOST:PORT[,HOST:PORT...] "
            "nor zookeeper://HOST:PORT[,HOST:PORT...]"
        )
    try:
        endpoints = parse_addresses(listed)
    except BadAddress as error:
        raise OptionError(f"{source}: storeAddress: {error}") from None
    open_kind = _etcd if kind == ETCD else _zookeeper
    return open_kind(settings, endpoints)


def _etcd(settings: ConsensusSettings, endpoints: list[str]) -> ConsensusStore:
    try:
        from orbitmq.server.controller.etcd import EtcdStore, EtcdTls
    except ModuleNotFoundError as error:
        raise _not_installed("etcd", "controller", error) from None
    files = _tls_files(settings)
    return EtcdStore(
        endpoints,
        prefix=settings.store_prefix,
        group=settings.store_group,
        timeout_ms=settings.store_timeout_ms,
        tls=None if files is None else EtcdTls(*files),
    )


def _zookeeper(settings: ConsensusSettings, endpoints: list[str]) -> ConsensusStore:
    if not settings.store_prefix.strip("/"):
        raise OptionError("storePrefix: ZooKeeper's root is no place for keys: name a node below it")
    try:
        from orbitmq.server.controller.zookeeper import ZooKeeperStore
        from orbitmq.server.controller.zookeeper_client import ZooKeeperTls
    except ModuleNotFoundError as error:
        raise _not_installed("ZooKeeper", "zookeeper", error) from None
    files = _tls_files(settings)
    return ZooKeeperStore(
        endpoints,
        prefix=settings.store_prefix,
        group=settings.store_group,
        timeout_ms=settings.store_timeout_ms,
        tls=None if files is None else ZooKeeperTls(*files),
    )


def _tls_files(settings: ConsensusSettings) -> tuple[str, str, str] | None:
    """Certificates to trust, own certificate and its key; None without TLS."""
    if not settings.store_ca_path:
        return None
    return settings.store_ca_path, settings.store_cert_path, settings.store_key_path


def _not_installed(store: str, extra: str, error: ModuleNotFoundError) -> OptionError:
    return OptionError(lacking(store, error.name, extra))
