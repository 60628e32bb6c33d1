"""Options of a broker as they are read and as they are changed."""

from orbitmq.admin import Admin
from orbitmq.admin.brokers import broker_config, update_broker_config
from orbitmq.options.properties import parse_properties
from orbitmq.protocol.requests.admin import (
    BrokerConfigReply,
    GetBrokerConfig,
    UpdateBrokerConfig,
)
from orbitmq.protocol.schema.declare import Void
from tests.kit.scripted_admin import alone


async def test_options_of_a_broker_are_lines_not_escaped_text() -> None:
    body = b"a=1\nmessageDelayLevel=1s 5s\npath=C:\\x\nempty=\nno pair\n"
    async with (
        alone({GetBrokerConfig: BrokerConfigReply(version="{}", body=body)}) as peer,
        Admin(peer.address) as admin,
    ):
        options = await broker_config(admin, peer.address)
    assert options == {"a": "1", "messageDelayLevel": "1s 5s", "path": "C:\\x", "empty": ""}


async def test_updates_travel_as_properties_that_java_reads_back() -> None:
    async with alone({UpdateBrokerConfig: Void()}) as peer, Admin(peer.address) as admin:
        await update_broker_config(admin, peer.address, {"a": "x = y\\z", "b": "ü"})
    assert parse_properties(bytes(peer.asked[-1].body), "sent") == {"a": "x = y\\z", "b": "ü"}
