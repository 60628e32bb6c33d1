"""A controller and brokers with access control: brokers sign, operators elect, strangers get nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from orbitmq.admin import Admin
from orbitmq.admin.controllers import elect_master
from orbitmq.broker.role.role import Role
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.remoting.signing import Credentials
from orbitmq.protocol.requests.controller import CleanBrokerData, ControllerElectMaster
from orbitmq.testing.local_etcd import LocalEtcd
from tests.kit.replication import until
from tests.peers.test_controller_mode import Group, etcd, role, two

__all__ = ["etcd"]
OPERATOR, BROKERS = Credentials("root", "r-secret"), Credentials("inner", "i-secret")
INNER = '{"accessKey":"inner","secretKey":"i-secret"}'


@pytest.fixture
async def group(etcd: LocalEtcd, tmp_path: Path) -> AsyncIterator[Group]:
    made = Group(tmp_path, etcd, f"/{tmp_path.name}")
    made.settings.authentication_enabled = True
    made.settings.init_authentication_user = '{"username":"root","password":"r-secret"}'
    made.settings.inner_client_authentication_credentials = INNER
    made.pool = ConnectionPool(credentials=OPERATOR)
    await made.start_controller()
    try:
        yield made
    finally:
        await made.close()


GUARDED = {
    "innerClientAuthenticationCredentials": INNER,
    "authenticationEnabled": True,
    "authorizationEnabled": True,
    "initAuthenticationUser": '{"username":"root","password":"r-secret"}',
}


async def test_brokers_sign_and_only_operators_elect(group: Group) -> None:
    first, second = await two(group, **GUARDED)
    assert group.controller is not None
    address = group.controller.address
    elect = ControllerElectMaster("DefaultCluster", "broker-a", 2, True)
    for credentials in (None, BROKERS, Credentials("root", "guessed")):
        stranger = ConnectionPool(credentials=credentials)
        try:
            for request in (elect, CleanBrokerData("broker-a", None, None, True)):
                with pytest.raises(BrokerRefused) as refused:
                    await stranger.call(address, request)
                assert refused.value.code == ResponseCode.NO_PERMISSION
        finally:
            await stranger.close()
    assert (role(first), first.broker.role.epoch) == (Role.MASTER, 1)
    async with Admin(access_key="root", secret_key="r-secret") as admin:
        assert (await elect_master(admin, address, "DefaultCluster", "broker-a", 2)).master_epoch == 2
    await until(lambda: role(second) is Role.MASTER and role(first) is Role.SLAVE)


async def test_a_broker_without_the_credentials_gets_no_role_and_says_why(
    group: Group, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = await group.start("stranger")
    await until(lambda: "username cannot be null" in caplog.text)
    await until(lambda: "no controller answers: NO_PERMISSION" in caplog.text)
    assert role(stranger) is Role.UNKNOWN


async def test_notices_are_signed_so_that_guarded_brokers_take_them(group: Group) -> None:
    """Without them a broker asks again after the period below."""
    _, second = await two(group, **GUARDED, syncControllerMetadataPeriod=3_600_000)
    await group.stop("one")
    await until(lambda: role(second) is Role.MASTER)
