"""What brokers, operators and strangers may ask of a controller."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from orbitmq.controller.access import ControllerGate
from orbitmq.controller.options import CONTROLLER_TABLE
from orbitmq.handling.call import Peer
from orbitmq.options import Layer, OptionError
from orbitmq.protocol.bodies.ha import BrokerNames, SyncStateSet
from orbitmq.protocol.remoting.signing import Credentials
from orbitmq.protocol.requests.controller import (
    CleanBrokerData,
    ControllerAlterSyncStateSet,
    ControllerApplyBrokerId,
    ControllerElectMaster,
    ControllerGetMetadataInfo,
    ControllerGetNextBrokerId,
    ControllerGetReplicaInfo,
    ControllerGetSyncStateData,
    ControllerRegisterBroker,
    GetControllerConfig,
    UpdateControllerConfig,
)
from orbitmq.protocol.requests.ha import BrokerHeartbeat
from orbitmq.protocol.schema.declare import Request
from tests.kit.controller_story import ControllerStory

OPERATOR, BROKERS = Credentials("root", "r-secret"), Credentials("inner", "i-secret")
TEXTS = {
    "initAuthenticationUser": '{"username":"root","password":"r-secret"}',
    "innerClientAuthenticationCredentials": '{"accessKey":"inner","secretKey":"i-secret"}',
}
PEER = Peer(1, b"\x0a\0\0\x01\0\0\0\x01", "10.0.0.1:1")
OF_BROKERS = [
    BrokerHeartbeat("C", "10.0.0.1:10911", "broker-a", 1),
    ControllerAlterSyncStateSet("broker-a", 1, 1, body=SyncStateSet({1}, 1)),
    ControllerApplyBrokerId("C", "broker-a", 1, "x"),
    ControllerElectMaster("C", "broker-a", 1, False),
    ControllerGetMetadataInfo(),
    ControllerGetNextBrokerId("C", "broker-a"),
    ControllerGetReplicaInfo("broker-a"),
    ControllerGetSyncStateData(BrokerNames(["broker-a"])),
    ControllerRegisterBroker("C", "broker-a", 1, "10.0.0.1:10911"),
]
OF_OPERATORS = [
    ControllerElectMaster("C", "broker-a", 1, True),
    ControllerElectMaster("C", "broker-a", -1, False),
    CleanBrokerData("broker-a"),
    UpdateControllerConfig(b"enableElectUncleanMaster=true"),
    GetControllerConfig(),
]


def refusal(request: Request, user: Credentials | None) -> str | None:
    gate = ControllerGate(
        SimpleNamespace(
            init_authentication_user=TEXTS["initAuthenticationUser"],
            inner_client_authentication_credentials=TEXTS["innerClientAuthenticationCredentials"],
        )
    )
    command = request.to_command()
    if user is not None:
        user.sign(command)
    return gate.refusal(command, PEER, 0)


def names(request: Request) -> str:
    return type(request).__name__


@pytest.mark.parametrize("request_", OF_BROKERS, ids=names)
def test_brokers_may_send_what_brokers_send(request_: Request) -> None:
    assert refusal(request_, BROKERS) is None
    assert refusal(request_, OPERATOR) is None


@pytest.mark.parametrize("request_", OF_OPERATORS, ids=names)
def test_operators_alone_elect_remove_and_set(request_: Request) -> None:
    assert refusal(request_, OPERATOR) is None
    assert "initAuthenticationUser" in (refusal(request_, BROKERS) or "")


@pytest.mark.parametrize("request_", OF_BROKERS + OF_OPERATORS, ids=names)
def test_a_stranger_may_nothing(request_: Request) -> None:
    assert refusal(request_, None) == "username cannot be null."
    assert refusal(request_, Credentials("root", "guessed")) == "check signature failed."
    assert refusal(request_, Credentials("nobody", "r-secret")) == "User:nobody is not found."


def test_every_request_of_a_controller_is_of_brokers_or_of_operators() -> None:
    assert {one.CODE for one in OF_BROKERS + OF_OPERATORS} == set(ControllerStory().handlers)


def test_an_election_that_cannot_be_read_is_an_operators() -> None:
    gate = ControllerGate(
        SimpleNamespace(
            init_authentication_user=None,
            inner_client_authentication_credentials=TEXTS["innerClientAuthenticationCredentials"],
        )
    )
    for designate, broker_id in (("TRUE", "1"), ("true", "1"), ("", "1"), ("false", "-1"), ("false", "")):
        command = ControllerElectMaster("C", "broker-a", 1, False).to_command()
        assert command.ext is not None
        command.ext |= {"designateElect": designate, "brokerId": broker_id}
        BROKERS.sign(command)
        assert gate.refusal(command, PEER, 0) is not None, (designate, broker_id)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"authenticationEnabled": "true"}, "innerClientAuthenticationCredentials: brokers sign"),
        (
            {**TEXTS, "initAuthenticationUser": '{"username":"inner","password":"p-secret"}'},
            "name the same user",
        ),
        ({"initAuthenticationUser": "p-secret"}, "the test: initAuthenticationUser has to be"),
    ],
)
def test_users_that_cannot_be_are_refused_at_the_start(options: dict[str, str], says: str) -> None:
    with pytest.raises(OptionError, match=says) as refused:
        CONTROLLER_TABLE.load([Layer("the test", options)])
    assert "p-secret" not in str(refused.value)
