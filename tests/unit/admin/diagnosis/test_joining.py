"""Filters of a group that is online, by what brokers of both kinds tell, beside that of one who joins."""

from __future__ import annotations

import pytest

from orbitmq.admin.diagnosis.joining import other_filters
from orbitmq.protocol.bodies.heartbeat import (
    Connection,
    ConsumerConnection,
    FilterOfMembers,
    MessageModel,
    SubscriptionData,
)

RETRY = SubscriptionData("%RETRY%g", "*")


def online(
    *subscriptions: SubscriptionData,
    model: MessageModel = MessageModel.CLUSTERING,
    filters: list[FilterOfMembers] | None = None,
) -> ConsumerConnection:
    return ConsumerConnection(
        connection_set=[Connection("c2"), Connection("c1")],
        subscription_table={one.topic: one for one in (*subscriptions, RETRY)},
        message_model=model,
        filters_of_members=filters,
    )


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (online(SubscriptionData("T", "b||a")), []),
        (online(SubscriptionData("T", "a || b || c")), ["T `a || b || c` (c1, c2)"]),
        (online(SubscriptionData("T", "a = 1", "SQL92")), ["T SQL92 `a = 1` (c1, c2)"]),
        (online(SubscriptionData("U", "x"), SubscriptionData("V")), ["U `x` (c1, c2)", "V `*` (c1, c2)"]),
        (online(), []),  # its members pull by themselves
        (
            online(SubscriptionData("T", "a || b"), model=MessageModel.BROADCASTING),
            ["T `a || b`, broadcasting (c1, c2)"],
        ),
        (
            online(
                SubscriptionData("T", "a || b"),
                filters=[
                    FilterOfMembers("T", "TAG", "a || b", client_ids=["c1"]),
                    FilterOfMembers("T", "TAG", "stray", client_ids=["c2"]),
                    FilterOfMembers("U", "TAG", "*", client_ids=["c2"]),
                ],
            ),
            ["T `stray` (c2)"],
        ),
    ],
)
def test_the_filters_that_are_others(found: ConsumerConnection, expected: list[str]) -> None:
    others = other_filters(found, SubscriptionData("T", "a || b"))
    assert [f"{one.topic} {one}" for one in others] == expected
