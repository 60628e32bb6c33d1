from __future__ import annotations

import pytest

from orbitmq.net.address import (
    default_namesrv,
    format_address,
    is_loopback,
    parse_address,
    parse_addresses,
)
from orbitmq.net.errors import BadAddress


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("broker:10911", ("broker", 10911)),
        (" 10.0.0.1:1 ", ("10.0.0.1", 1)),
        ("[::1]:65535", ("::1", 65535)),
        ("[fe80::1%eth0]:9876", ("fe80::1%eth0", 9876)),
    ],
)
def test_an_address_is_a_host_and_a_port(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address
    assert format_address(*address) == text.strip()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "broker",
        ":9876",
        "broker:",
        "broker:0",
        "broker:65536",
        "broker:-1",
        "broker:٩",
        "a b:1",
        "u@h:1",
        "h/p:1",
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(BadAddress, match="host:port"):
        parse_address(text)


def test_a_url_is_refused_with_the_part_to_leave_out() -> None:
    with pytest.raises(BadAddress, match="without http://"):
        parse_address("http://broker:9876")


def test_lists_are_joined_by_semicolons_or_commas_and_may_have_blanks() -> None:
    assert parse_addresses("a:1;b:2, c:3;;") == ["a:1", "b:2", "c:3"]
    assert parse_addresses(["a:1;b:2", "c:3"]) == ["a:1", "b:2", "c:3"]


@pytest.mark.parametrize("text", ["", " ; ,", "a:1;b"])
def test_a_list_without_an_address_or_with_a_bad_one_is_refused(text: str) -> None:
    with pytest.raises(BadAddress):
        parse_addresses(text)


def test_name_servers_come_from_the_environment_else_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "ns:9876")
    assert default_namesrv() == "ns:9876"
    monkeypatch.delenv("NAMESRV_ADDR")
    assert default_namesrv() == "127.0.0.1:9876"


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.9.9.9", "::1"])
def test_a_loopback_is_known(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "broker", ""])
def test_another_host_is_no_loopback(host: str) -> None:
    assert not is_loopback(host)
