"""Flags that all servers share: the sources of their options, addresses, warnings, the ready file."""

from __future__ import annotations

import logging
from pathlib import Path

import click
import pytest

from orbitmq.broker.options import BROKER_TABLE, BrokerSettings
from orbitmq.cli.app import run
from orbitmq.cli.flags import (
    Advertised,
    ServerFlags,
    clear_ready_file,
    warn_misspelt,
    warn_without_effect,
)
from orbitmq.nameserver.options import NAMESRV_TABLE
from orbitmq.options import OptionError


def loaded(*assignments: str) -> BrokerSettings:
    return BROKER_TABLE.load(ServerFlags(assignments=assignments).layers({}))


def test_layers_are_weakest_first(tmp_path: Path) -> None:
    config = tmp_path / "a.conf"
    config.write_text("x=1")
    flags = ServerFlags(config=config, assignments=("y=1",))
    sources = [layer.source for layer in flags.layers({"NAMESRV_ADDR": "h:1"})]
    assert sources == ["NAMESRV_ADDR", str(config), "environment", "--set"]


def test_the_level_of_logs_is_a_flag_over_all_others() -> None:
    layers = ServerFlags(assignments=("logLevel=debug",), log_level="error").layers(
        {"ORBITMQ_LOG_LEVEL": "info"}
    )
    assert BROKER_TABLE.load(layers).log_level == "error"


def test_one_warning_lists_what_has_no_effect(caplog: pytest.LogCaptureFixture) -> None:
    settings = loaded("sendMessageThreadPoolNums=64", "pullThreadPoolQueueCapacity=1", "traceOn=false")
    warn_without_effect(BROKER_TABLE, settings)
    [record] = caplog.records
    assert "sendMessageThreadPoolNums (" in record.getMessage()
    assert "pullThreadPoolQueueCapacity (" in record.getMessage()
    assert "traceOn" not in record.getMessage()
    caplog.clear()
    warn_without_effect(BROKER_TABLE, loaded())
    assert caplog.records == []


def test_only_near_misses_among_variables_are_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    environment = {
        "ORBITMQ_BROKER_NAMES": "typing error",
        "ORBITMQ_BROKER_NAME": "right",
        "ORBITMQ_NAMESRV_LISTEN_PORT": "right",
        "ORBITMQ_SERVICE_HOST": "Kubernetes",
        "ORBITMQ_PORT_9876_TCP_ADDR": "Kubernetes",
        "OTHER": "x",
    }
    warn_misspelt(environment, BROKER_TABLE, NAMESRV_TABLE)
    assert [record.getMessage() for record in caplog.records] == [
        "environment variable ORBITMQ_BROKER_NAMES sets no option; did you mean ORBITMQ_BROKER_NAME?"
    ]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("broker-1", ("broker-1", None)),
        ("broker-1:10911", ("broker-1", 10911)),
        ("2001:db8::1", ("2001:db8::1", None)),
        ("[2001:db8::1]", ("2001:db8::1", None)),
        ("[2001:db8::1]:10911", ("2001:db8::1", 10911)),
    ],
)
def test_an_advertised_address_may_have_a_port(text: str, address: tuple[str, int | None]) -> None:
    assert Advertised().convert(text, None, None) == address


@pytest.mark.parametrize("text", ["", "a,b", "http://a", "a b", "broker-1:port", "broker-1:0"])
def test_texts_that_are_no_address_to_advertise(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Advertised().convert(text, None, None)


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        ("broker", "--port"),
        ("standalone", "--namesrv-port and --broker-port"),
        ("namesrv", "--port"),
        ("console", "--port"),
    ],
)
@pytest.mark.parametrize(("text", "host"), [("127.0.0.1:10911", "127.0.0.1"), ("[::1]:10911", "::1")])
def test_a_port_behind_the_address_to_listen_on_is_refused_and_its_option_named(
    capsys: pytest.CaptureFixture[str], command: str, flags: str, text: str, host: str
) -> None:
    assert run([command, "--listen", text]) == 2
    assert f"has a port: give {host} alone, and the port with {flags}" in capsys.readouterr().err


def test_a_ready_file_of_a_server_before_is_taken_away(tmp_path: Path) -> None:
    path = tmp_path / "ready"
    path.write_text("of one that was killed")
    clear_ready_file(path)
    assert not path.exists()
    clear_ready_file(path)
    clear_ready_file(None)


def test_a_ready_file_that_cannot_be_made_ends_the_start(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=f"there is no folder {tmp_path}/none"):
        clear_ready_file(tmp_path / "none" / "ready")
    with pytest.raises(OptionError, match="--ready-file"):
        clear_ready_file(tmp_path)
