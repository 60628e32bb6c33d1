"""The way of an instance to the consensus store."""

import asyncio
from types import SimpleNamespace

import pytest

from orbitmq.delay_service.instances import InstanceLease
from orbitmq.delay_service.options import DELAY_TABLE
from orbitmq.options import Layer, OptionError
from tests.certificates import Authority


def settings(**given):
    given = {"delayClusters": "main=rocketmq://127.0.0.1:1", **given}
    return DELAY_TABLE.load([Layer("test", given)])


def test_the_way_to_the_consensus_store_is_that_of_the_options(tmp_path):
    own = Authority(tmp_path).issue("instance")
    given = settings(
        storeAddress="etcd://127.0.0.1:1",
        storeTimeoutMs="1234",
        storeCaPath=str(own.cert),
        storeCertPath=str(own.cert),
        storeKeyPath=str(own.key),
        storePrefix="/p/",
        delayInstance="one",
    )
    lease = InstanceLease(given, None, list)
    store = lease._store
    assert (store._timeout, store._prefix, lease._leadership.own_id) == (1.234, "/p/", "one")
    assert (store._tls.ca_path, store._tls.cert_path, store._tls.key_path) == (
        str(own.cert), str(own.cert), str(own.key),
    )  # fmt: skip
    assert lease.term() == 0


@pytest.mark.parametrize(
    "given", [{"storeAddress": "raft://a:1"}, {"storeAddress": "etcd://a"}, {"storeCertPath": "x"}]
)
def test_addresses_and_files_that_are_of_no_use(given):
    with pytest.raises(OptionError, match="store"):
        InstanceLease(settings(**given), None, list)


async def test_a_look_for_the_secret_that_the_store_gives_up_is_repeated(tmp_path):
    """The session opens the store again after a failure: the instance took no part any more, unheard."""
    lease = InstanceLease(settings(storeAddress="etcd://127.0.0.1:1", delayDataDir=str(tmp_path)), None, list)
    known, asked = asyncio.Event(), []

    async def read(key):
        asked.append(key)
        if len(asked) == 1:
            raise asyncio.CancelledError
        return {key: "00"}

    async def follow():
        """Nothing has changed."""

    lease._store = SimpleNamespace(read=read)
    session = SimpleNamespace(changed=lambda: None, error="")
    turn = SimpleNamespace(secret_is=lambda _: known.set(), follow=follow)
    taking_part = asyncio.create_task(lease._keep(session, turn))
    try:
        async with asyncio.timeout(5):
            await known.wait()
    finally:
        taking_part.cancel()
