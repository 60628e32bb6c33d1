from __future__ import annotations

import os
import re

from orbitmq.client.core.identity import client_id, local_ip, own_ip, unique_ids
from orbitmq.protocol.records.ids import parse_unique_id


def test_the_address_towards_this_machine_is_loopback() -> None:
    assert local_ip("127.0.0.1:9876") == "127.0.0.1"
    assert local_ip("[::1]:9876") in ("::1", "127.0.0.1")


def test_an_address_that_cannot_be_found_leaves_loopback() -> None:
    assert local_ip("no.such.host.invalid:1") == "127.0.0.1"


async def test_names_are_looked_up_aside() -> None:
    assert await own_ip("127.0.0.1:9876") == "127.0.0.1"
    assert await own_ip("localhost:9876") in ("127.0.0.1", "::1")


def test_client_ids_do_not_come_twice() -> None:
    one, two = client_id("10.0.0.1", None), client_id("10.0.0.1", None)
    assert one != two
    assert re.fullmatch(rf"10\.0\.0\.1@{os.getpid()}#\d+", one)
    assert client_id("10.0.0.1", "mine") == "10.0.0.1@mine"


def test_message_ids_say_where_they_were_made() -> None:
    made = parse_unique_id(unique_ids("10.0.0.1").new(1_700_000_000_000))
    assert (made.ip, made.pid) == ("10.0.0.1", os.getpid() & 0xFFFF)
