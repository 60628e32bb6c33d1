"""Every property of Apache's ProxyConfig is an option, and every honoured option is read."""

from __future__ import annotations

import csv
import logging
import re
from pathlib import Path

import pytest

import orbitmq
from orbitmq.options import Layer, OptionError, RefusedValue, Status
from orbitmq.options.option import to_text
from orbitmq.proxy.options import PROXY_TABLE
from orbitmq.server.lifecycle.log_levels import LogLevels

DATA = Path(__file__).parents[1] / "options" / "data" / "proxy_properties.csv"
OTHER_NAMES = {"tlsTestModeEnable": "tls.test.mode.enable"}
"""Both are ORBITMQ_TLS_TEST_MODE_ENABLE: servers of every kind have the second one."""
SOURCE = Path(orbitmq.__file__).parent


def test_every_property_of_apache_is_there_with_its_type_and_its_default_or_says_so() -> None:
    wrong = []
    with DATA.open(newline="") as file:
        for apache in csv.DictReader(file):
            row = PROXY_TABLE.find(OTHER_NAMES.get(apache["field"], apache["field"]))
            default = "" if apache["default"] == "null" else apache["default"]
            if row is None or row.kind != apache["type"]:
                wrong.append((apache["field"], row and row.kind))
            elif row.apache_default is None and to_text(row.default) != default:
                wrong.append((row.name, to_text(row.default)))
    assert wrong == []


def test_rows_explain_themselves_and_have_valid_defaults() -> None:
    for row in PROXY_TABLE.rows:
        assert row.doc.endswith(".") if row.status is Status.HONOURED else row.reason, row.name
        assert row.parse(row.default, "default") == row.default


def test_every_honoured_option_is_read() -> None:
    text = (
        "\n".join(
            path.read_text()
            for room in ("proxy", "handling", "net", "server")
            for path in (SOURCE / room).rglob("*.py")
            if path != SOURCE / "proxy" / "options.py"
        )
        + (SOURCE / "cli" / "settings.py").read_text()
    )
    honoured = [row for row in PROXY_TABLE.rows if row.status is Status.HONOURED]
    assert [row.name for row in honoured if not re.search(rf"\.{row.key}\b", text)] == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("proxyMode", "LOCAL"),
        ("namesrvDomain", "names.example.com"),
        ("useDelayLevel", "true"),
        ("tlsCertPath", "/etc/cert.pem"),
        ("metricCollectorMode", "on"),
        ("sendLatencyEnable", "true"),
    ],
)
def test_a_value_that_would_mean_something_else_is_refused(name: str, value: str) -> None:
    with pytest.raises(RefusedValue, match=name):
        PROXY_TABLE.load([Layer("the test", {name: value})])


def test_options_that_contradict_each_other_are_refused() -> None:
    for given in (
        {"minInvisibleTimeMillsForRecv": "10", "maxInvisibleTimeMills": "9"},
        {"authorizationEnabled": "true"},
        {"authenticationEnabled": "true"},
        {"proxyProtocolFrom": "balancer.example.com"},
    ):
        with pytest.raises(OptionError):
            PROXY_TABLE.load([Layer("the test", given)])


def test_levels_of_logs_follow_the_option(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)  # the root has its level back behind the test
    given = {"logLevel": "warning,orbitmq.proxy.only_here=debug"}
    LogLevels([PROXY_TABLE.load([Layer("the test", given)])]).look()
    assert logging.getLogger().level == logging.WARNING
    assert logging.getLogger("orbitmq.proxy.only_here").isEnabledFor(logging.DEBUG)
