"""Options of replication that do not go together are refused at the start, each with the one to change."""

from __future__ import annotations

import pytest

from orbitmq.broker.options import BROKER_TABLE, BrokerSettings
from orbitmq.options import Layer, RefusedValue


def loaded(**values: object) -> BrokerSettings:
    return BROKER_TABLE.load([Layer("the file", values)])


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"enableControllerMode": True}, "controllerAddr.*needs the controllers' addresses"),
        ({"allAckInSyncStateSet": True}, "the in-sync set is a controller's"),
        (
            {
                "enableControllerMode": True,
                "controllerAddr": "127.0.0.1:9878",
                "enableSlaveActingMaster": True,
            },
            "enableSlaveActingMaster.*a controller elects another master",
        ),
        ({"enableBlindMaster": True}, "enableBlindMaster.*no controller elects masters"),
        (
            {
                "enableControllerMode": True,
                "controllerAddr": "127.0.0.1:9878",
                "enableBlindMaster": True,
                "authenticationEnabled": True,
            },
            "enableBlindMaster.*set haAuthenticationEnable",
        ),
    ],
    ids=["no controller", "no in-sync set", "two who elect", "blind without controllers", "unsigned links"],
)
def test_options_that_do_not_go_together_are_refused(values: dict[str, object], says: str) -> None:
    with pytest.raises(RefusedValue, match=says):
        loaded(**values)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"enableSlaveActingMaster": True},
        {"enableControllerMode": True, "controllerAddr": "127.0.0.1:9878"},
        {"enableControllerMode": True, "controllerAddr": "127.0.0.1:9878", "allAckInSyncStateSet": True},
    ],
)
def test_options_that_go_together_are_taken(values: dict[str, object]) -> None:
    settings = loaded(**values)
    assert settings.enable_controller_mode is values.get("enableControllerMode", False)
