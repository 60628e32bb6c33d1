import pytest

from orbitmq import Admin, Message, Producer
from orbitmq.admin.group_clone import CannotClone, clone_group
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.testing import LocalBroker


async def test_a_clone_has_the_settings_and_goes_on_where_the_group_is() -> None:
    with LocalBroker() as broker:
        broker.create_topic("orders", 1)
        async with Admin(broker.namesrv) as admin, Producer("p", broker.namesrv) as producer:
            for _ in range(10):
                await producer.send(Message("orders", b"x"))
            await admin.create_group("billing", max_retries=3)
            queue = MessageQueue("orders", "broker-a", 0)
            await admin.set_offset("billing", queue, 4)
            assert await clone_group(admin, "billing", "copy") == ["orders"]
            assert (await admin.group_progress("copy")).lag == 6
            assert (await admin.groups())["copy"].config.retry_max_times == 3
            await admin.set_offset("copy", queue, 9)
            assert (await admin.group_progress("billing")).lag == 6

            with pytest.raises(CannotClone, match="exists already"):
                await clone_group(admin, "billing", "copy")
            with pytest.raises(CannotClone, match="exists already"):
                await clone_group(admin, "billing", "billing")
            with pytest.raises(CannotClone, match="no group nobody"):
                await clone_group(admin, "nobody", "copy-2")
