from __future__ import annotations

import pytest

from orbitmq.protocol.records import ids

NOW = 1_795_212_954_469


def test_hosts() -> None:
    assert ids.pack_host("127.0.0.1", 10911).hex() == "7f00000100002a9f"
    assert ids.unpack_host(memoryview(bytes.fromhex("7f00000100002a9f"))) == ("127.0.0.1", 10911)
    assert len(ids.pack_host("::1", 1)) == 20
    assert ids.host_text(ids.pack_host("fe80::2", 5)) == "[fe80::2]:5"


def test_ipv4_in_ipv6_form_is_ipv4() -> None:
    assert ids.pack_host("::ffff:10.0.0.1", 1) == ids.pack_host("10.0.0.1", 1)


def test_zone_is_left_out() -> None:
    assert ids.pack_host("fe80::1%eth0", 1) == ids.pack_host("fe80::1", 1)


@pytest.mark.parametrize(("ip", "port"), [("localhost", 1), ("", 1), ("10.0.0.1", -1), ("10.0.0.1", 65_536)])
def test_no_hosts(ip: str, port: int) -> None:
    with pytest.raises(ids.MalformedAddress):
        ids.pack_host(ip, port)


@pytest.mark.parametrize("length", [0, 4, 7, 9, 16, 21])
def test_no_packed_hosts(length: int) -> None:
    with pytest.raises(ids.MalformedAddress):
        ids.unpack_host(bytes(length))


def test_unique_ids_count_up() -> None:
    made = ids.UniqueIds(bytes(4), 1, 2)
    first, second = (ids.parse_unique_id(made.new(NOW)) for _ in range(2))
    assert (first.counter, second.counter) == (0, 1)
    assert first.ms_of_month == second.ms_of_month == NOW - ids.month_of(NOW)[0]
    assert (first.ip, first.pid, first.loader_hash) == ("0.0.0.0", 1, 2)


def test_unique_ids_of_a_packed_host_leave_the_port_out() -> None:
    host = ids.pack_host("10.1.2.3", 10911)
    assert ids.UniqueIds(host, 1, 2).new(NOW) == ids.UniqueIds(host[:4], 1, 2).new(NOW)
    with pytest.raises(ids.MalformedAddress):
        ids.UniqueIds(bytes(5), 1, 2)


def test_time_in_ids_never_goes_back() -> None:
    made = ids.UniqueIds(bytes(4), 1, 2)
    first = ids.parse_unique_id(made.new(NOW))
    back = ids.parse_unique_id(made.new(NOW - 3_600_000))
    assert back.ms_of_month == first.ms_of_month
    assert back.counter == 1


def test_counter_wraps_into_the_next_millisecond() -> None:
    made = ids.UniqueIds(bytes(4), 1, 2)
    texts = [made.new(NOW) for _ in range(65_537)]
    assert len(set(texts)) == len(texts)
    last = ids.parse_unique_id(texts[-1])
    assert last.counter == 0
    assert last.ms_of_month == ids.parse_unique_id(texts[0]).ms_of_month + 1


def test_next_month_counts_from_its_own_beginning() -> None:
    made = ids.UniqueIds(bytes(4), 1, 2)
    _, end = ids.month_of(NOW)
    before = ids.parse_unique_id(made.new(end - 1))
    after = ids.parse_unique_id(made.new(end + 5))
    assert before.ms_of_month > 27 * 86_400_000
    assert after.ms_of_month == 5


def test_late_in_a_long_month_the_time_takes_all_32_bits() -> None:
    start, _ = ids.month_of(NOW)
    text = ids.UniqueIds(bytes(4), 1, 2).new(start + 30 * 86_400_000 - 7_200_000)
    assert ids.parse_unique_id(text).ms_of_month == 30 * 86_400_000 - 7_200_000 > 1 << 31
