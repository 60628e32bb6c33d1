"""The bodies of batches: what they have, and what they refuse."""

from __future__ import annotations

import pytest

from orbitmq.client.core.errors import IllegalMessage, MessageTooLarge
from orbitmq.client.core.message import Message
from orbitmq.client.sending.batching_cy import ENTRY_BYTES, batch_parts
from orbitmq.protocol.records.batch_cy import split_batch
from orbitmq.protocol.records.ids import UniqueIds

NOW = 1_700_000_000_000


def parts(messages: list[Message], limit: int = 10_000) -> list[tuple[bytes, list[str]]]:
    return batch_parts(messages, limit, UniqueIds(bytes(4), 1, 2), NOW)


def test_each_message_stands_in_a_body_with_its_own_id() -> None:
    ((body, unique_ids),) = parts([Message("T", b"a", flag=5), Message("T", b"b", tags="t")])
    entries = split_batch(body)
    assert [entry[:2] for entry in entries] == [(5, b"a"), (0, b"b")]
    for (_, _, properties), unique_id in zip(entries, unique_ids, strict=True):
        assert f"UNIQ_KEY\x01{unique_id}\x02".encode() in properties


def test_what_is_too_much_for_one_body_goes_on_in_the_next() -> None:
    found = parts([Message("T", bytes([place] * 100)) for place in range(1, 8)], limit=600)
    assert len(found) > 1
    assert all(len(body) <= 600 for body, _ in found)
    assert [entry[1][0] for body, _ in found for entry in split_batch(body)] == list(range(1, 8))


@pytest.mark.parametrize(
    "messages",
    [
        [Message("T", b"a"), Message("U", b"a")],
        [Message("T", b"a"), Message("T", b"a", wait_store_ok=False)],
        [Message("T", b"a"), Message("T", b"a", delay_level=1)],
        [Message("T", b"a"), Message("T", b"a", lite_topic="l")],
        [Message("%RETRY%g", b"a")],
        [Message("T", b"a"), "no message"],
    ],
)
def test_messages_that_cannot_go_together_are_refused(messages: list[Message]) -> None:
    with pytest.raises(IllegalMessage):
        parts(messages)


def test_a_message_that_is_too_large_with_its_properties_is_refused() -> None:
    with pytest.raises(MessageTooLarge):
        parts([Message("T", b"x" * 100)], limit=100 + ENTRY_BYTES)
