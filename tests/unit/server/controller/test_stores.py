"""Addresses of consensus stores, and stores that are not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.controller.options import ControllerSettings
from orbitmq.options import OptionError
from orbitmq.server.controller.consensus import StoreUnreachable, StoreUntrusted
from orbitmq.server.controller.stores import open_store
from orbitmq.server.turn.listener import free_ports


@pytest.mark.parametrize("kind", ["etcd", "zookeeper"])
async def test_a_store_that_cannot_be_reached_is_named(kind: str) -> None:
    settings = ControllerSettings(store_address=f"{kind}://127.0.0.1:{free_ports()}")
    store = open_store(settings)
    with pytest.raises(StoreUnreachable, match="cannot be reached"):
        await store.open()
    await store.close()


@pytest.mark.parametrize("kind", ["etcd", "zookeeper"])
async def test_a_certificate_that_cannot_be_read_is_named(kind: str, tmp_path: Path) -> None:
    ca_path = str(tmp_path / "no.pem")
    settings = ControllerSettings(store_address=f"{kind}://127.0.0.1:1", store_ca_path=ca_path)
    with pytest.raises(StoreUntrusted, match=r"no\.pem"):
        await open_store(settings).open()


@pytest.mark.parametrize(
    "address", ["", "127.0.0.1:2379", "consul://127.0.0.1:8500", "etcd://", "etcd://x", "zookeeper://x"]
)
def test_an_address_that_names_no_store_is_refused(address: str) -> None:
    with pytest.raises(OptionError, match="storeAddress"):
        open_store(ControllerSettings(store_address=address))


def test_the_root_of_zookeeper_is_no_prefix() -> None:
    with pytest.raises(OptionError, match="storePrefix"):
        open_store(ControllerSettings(store_address="zookeeper://127.0.0.1:2181", store_prefix="/"))
