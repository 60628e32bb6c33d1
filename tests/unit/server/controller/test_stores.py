"""Addresses of consensus stores, and stores that are not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.controller.options import ControllerSettings
from orbitmq.options import OptionError
from orbitmq.server.controller.consensus import StoreUnreachable, StoreUntrusted
from orbitmq.server.controller.stores import open_store
from orbitmq.server.turn.listener import free_ports


async def test_a_store_that_cannot_be_reached_is_named() -> None:
    settings = ControllerSettings(store_address=f"etcd://127.0.0.1:{free_ports()}")
    store = open_store(settings)
    with pytest.raises(StoreUnreachable, match="cannot be reached"):
        await store.open()
    await store.close()


async def test_a_certificate_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    settings = ControllerSettings(store_address="etcd://127.0.0.1:1", store_ca_path=str(tmp_path / "no.pem"))
    with pytest.raises(StoreUntrusted, match=r"no\.pem"):
        await open_store(settings).open()


@pytest.mark.parametrize(
    "address", ["", "127.0.0.1:2379", "zookeeper://127.0.0.1:2181", "etcd://", "etcd://x"]
)
def test_an_address_that_names_no_store_is_refused(address: str) -> None:
    with pytest.raises(OptionError, match="storeAddress"):
        open_store(ControllerSettings(store_address=address))
