"""Options of brokers side by side: those on which brokers differ though they should not."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from orbitmq.admin import Admin
from orbitmq.admin.cluster_config import ClusterConfig, OptionValues, cluster_config
from orbitmq.protocol.bodies.route import BrokerData, ClusterInfo
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.admin import BrokerConfigReply, GetBrokerConfig
from orbitmq.protocol.requests.route import GetBrokerClusterInfo
from orbitmq.protocol.schema.declare import JsonReply
from tests.kit.scripted_admin import Answer, Scripted


def config(options: Mapping[str, str]) -> Answer:
    text = "".join(f"{name}={value}\n" for name, value in options.items())
    return BrokerConfigReply(version="{}", body=text.encode())


async def configs(first: Answer, second: Answer) -> ClusterConfig:
    """Options of a master that answers so, and of its slave."""
    async with Scripted({GetBrokerConfig: first}) as a, Scripted({GetBrokerConfig: second}) as b:
        info = ClusterInfo({"a": BrokerData("C", "a", {0: a.address, 1: b.address})}, {"C": ["a"]})
        async with (
            Scripted({GetBrokerClusterInfo: JsonReply[ClusterInfo](body=info)}) as names,
            Admin(names.address) as admin,
        ):
            return await cluster_config(admin)


async def test_options_are_listed_by_name_with_a_value_for_each_broker() -> None:
    found = await configs(
        config({"flushDiskType": "SYNC_FLUSH", "brokerName": "a"}), config({"fileReservedTime": "72"})
    )
    assert [(one.name, list(one.values)) for one in found.options] == [
        ("brokerName", ["a", None]),
        ("fileReservedTime", [None, "72"]),
        ("flushDiskType", ["SYNC_FLUSH", None]),
    ]
    assert found.errors == {}


async def test_a_broker_that_refuses_leaves_the_others_to_be_shown() -> None:
    found = await configs(config({"brokerId": "0"}), Refused(16, "not yours"))
    assert len(found.brokers) == 1
    assert [list(one.values) for one in found.options] == [["0"]]
    assert [text for text in found.errors.values() if "not yours" in text]


@pytest.mark.parametrize(
    ("name", "values", "differs"),
    [
        ("flushDiskType", ["SYNC_FLUSH", "ASYNC_FLUSH"], True),
        ("flushDiskType", ["SYNC_FLUSH", "SYNC_FLUSH"], False),
        ("flushDiskType", ["SYNC_FLUSH", None], False),
        ("brokerId", ["0", "1"], False),
    ],
    ids=["unlike", "alike", "unknown to one", "a broker's own"],
)
def test_options_on_which_brokers_differ(name: str, values: list[str | None], differs: bool) -> None:
    assert OptionValues(name, values).differs is differs
