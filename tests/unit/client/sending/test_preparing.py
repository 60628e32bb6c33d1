from __future__ import annotations

import random
import zlib

import pytest

from orbitmq.client.core.errors import IllegalMessage, MessageTooLarge
from orbitmq.client.core.identity import unique_ids
from orbitmq.client.core.message import Message
from orbitmq.client.core.options import Compression, ProducerOptions
from orbitmq.client.sending.batching_cy import ENTRY_BYTES
from orbitmq.client.sending.preparing import Preparation
from orbitmq.protocol.names import IllegalName
from orbitmq.protocol.records.batch_cy import split_batch
from orbitmq.protocol.records.compression import DEFAULT_MAX_INFLATED_BYTES, inflate
from orbitmq.protocol.records.properties import decode_properties


def preparation(**options: object) -> Preparation:
    return Preparation(ProducerOptions("g", **options), unique_ids("127.0.0.1"))  # type: ignore[arg-type]


def test_a_single_message() -> None:
    request, unique_id = preparation().single(Message("T", b"body", tags="t", flag=4), 123)
    command = request.to_command()
    assert command.code == 310
    assert command.ext["a"] == "g"
    assert (command.ext["b"], command.ext["c"], command.ext["d"]) == ("T", "TBW102", "4")
    assert (command.ext["f"], command.ext["g"], command.ext["h"]) == ("0", "123", "4")
    assert (command.ext["j"], command.ext["k"], command.ext["m"]) == ("0", "false", "false")
    assert decode_properties(command.ext["i"]) == {"TAGS": "t", "UNIQ_KEY": unique_id, "WAIT": "true"}
    assert command.body == b"body"


@pytest.mark.parametrize(("kind", "bits"), [("ZLIB", 0x301), ("LZ4", 0x101), ("ZSTD", 0x201)])
def test_large_bodies_are_compressed(kind: str, bits: int) -> None:
    if kind != "ZLIB":
        pytest.importorskip("lz4" if kind == "LZ4" else "backports.zstd")
    body = b"rocketmq" * 1000
    request, _ = preparation(compress_type=Compression[kind]).single(Message("T", body), 0)
    assert request.sys_flag == bits
    assert len(request.body) < 200
    assert inflate(request.body, request.sys_flag, 10_000) == body


def test_the_level_and_the_limit_of_compression_are_heeded() -> None:
    body = bytes(range(256)) * 8
    assert preparation().single(Message("T", body), 0)[0].sys_flag == 0
    request, _ = preparation(compress_msg_body_over_bytes=2048, compress_level=9).single(
        Message("T", body), 0
    )
    assert request.body == zlib.compress(body, 9)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"body": b""}, IllegalMessage),
        ({"body": b"x" * 101}, MessageTooLarge),
        ({"topic": ""}, IllegalName),
        ({"topic": "a b"}, IllegalName),
        ({"topic": "T" * 128}, IllegalName),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, IllegalName),
        ({"tags": "b\x02c"}, IllegalMessage),
        ({"properties": {"a": "b\x02c"}}, IllegalMessage),
        ({"properties": {"a\x01": "b"}}, IllegalMessage),
        ({"properties": {"a": "b" * 32_767}}, IllegalMessage),
    ],
)
def test_what_no_broker_would_take_is_refused_here_whenever_it_came(
    fields: dict[str, object], error: type[Exception]
) -> None:
    message = Message("T", b"x")
    for name, value in fields.items():
        setattr(message, name, value)
    with pytest.raises(error):
        preparation(max_message_size_bytes=100).single(message, 0)


def test_a_batch_holds_its_messages_as_they_are() -> None:
    messages = [Message("T", f"m{n}", tags="t", flag=n) for n in range(3)]
    [(request, unique_ids_of_batch)] = list(preparation().batches(messages, 5))
    assert request.to_command().code == 320
    assert request.batch is True
    assert set(decode_properties(request.properties or "")) == {"UNIQ_KEY", "WAIT"}
    parts = split_batch(bytes(request.body))
    assert [(flag, body) for flag, body, _ in parts] == [(0, b"m0"), (1, b"m1"), (2, b"m2")]
    assert [decode_properties(properties)["UNIQ_KEY"] for _, _, properties in parts] == unique_ids_of_batch
    assert len(set(unique_ids_of_batch)) == 3


def test_a_batch_is_split_at_the_size_limit_and_nothing_is_lost() -> None:
    messages = [Message("T", b"x" * 300) for _ in range(20)]
    parts = list(preparation(max_message_size_bytes=2000).batches(messages, 5))
    assert len(parts) > 3
    assert all(len(request.body) <= 2000 for request, _ in parts)
    # Nowhere would the next message have fitted in.
    assert all(len(request.body) + 300 + ENTRY_BYTES + 40 > 2000 for request, _ in parts[:-1])
    assert sum(len(ids) for _, ids in parts) == 20


def emptied() -> Message:
    message = Message("T", b"x")
    message.body = b""
    return message


@pytest.mark.parametrize(
    "messages",
    [
        [Message("T", b"x"), Message("U", b"x")],
        [Message("T", b"x"), Message("T", b"x", wait_store_ok=False)],
        [Message("T", b"x"), Message("T", b"x", delay_level=1)],
        [Message("T", b"x", delay_ms=1000), Message("T", b"x", delay_ms=1000)],
        [Message("T", b"x", deliver_at_ms=1)],
        [Message("%RETRY%g", b"x")],
        [Message("T", b"x"), emptied()],
    ],
)
def test_what_cannot_be_one_batch(messages: list[Message]) -> None:
    with pytest.raises(IllegalMessage):
        preparation().batches(messages, 0)


def test_a_message_that_fits_no_batch() -> None:
    with pytest.raises(MessageTooLarge):
        preparation(max_message_size_bytes=100).batches([Message("T", b"x" * 90)], 0)


def test_a_body_that_compression_does_not_shorten_is_sent_as_it_is() -> None:
    body = random.Random(7).randbytes(10_000)
    request, _ = preparation(max_message_size_bytes=10_000).single(Message("T", body), 0)
    assert (request.body, request.sys_flag) == (body, 0)


def test_the_limit_is_for_the_body_that_is_sent() -> None:
    made = preparation(max_message_size_bytes=10_000)
    request, _ = made.single(Message("T", b"x" * 1_000_000), 0)
    assert len(request.body) < 10_000
    with pytest.raises(MessageTooLarge):
        made.single(Message("T", random.Random(7).randbytes(10_001)), 0)
    with pytest.raises(MessageTooLarge, match=f"{DEFAULT_MAX_INFLATED_BYTES}"):
        made.single(Message("T", bytes(DEFAULT_MAX_INFLATED_BYTES + 1)), 0)
    with pytest.raises(MessageTooLarge):
        made.entry(Message("T", b"x" * 10_001), 0)  # batches are not compressed
