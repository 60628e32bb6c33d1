"""Messages that a power cut would cost, as a broker says."""

import pytest

from orbitmq.admin import Admin
from orbitmq.cli.admin.broker_unflushed import show as show_unflushed
from orbitmq.protocol.bodies.route import KVTable
from orbitmq.protocol.requests.admin import GetBrokerRuntimeInfo
from orbitmq.protocol.schema.declare import JsonReply
from tests.kit.scripted_admin import alone


@pytest.mark.parametrize(
    ("info", "said"),
    [
        ({"unflushedBytes": "4096", "unflushedTimeMillis": "250"}, (4096, 0.25)),
        ({"remainHowManyDataToFlush": "4.0 KiB"}, (None, None)),
    ],
)
async def test_what_a_power_cut_would_cost(
    info: dict[str, str], said: tuple[int | None, float | None]
) -> None:
    async with (
        alone({GetBrokerRuntimeInfo: JsonReply[KVTable](body=KVTable(info))}) as peer,
        Admin(peer.address) as admin,
    ):
        (row,) = (await show_unflushed.callback.__wrapped__.__wrapped__(admin, None)).as_json()  # type: ignore[union-attr]
    assert (row["broker"], row["unflushedBytes"], row["unflushedSeconds"]) == ("a", *said)
