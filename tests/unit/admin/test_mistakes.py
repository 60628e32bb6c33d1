"""Errors for an operator who gives a name that does not exist."""

import pytest

from orbitmq.cli.app import run
from orbitmq.testing.local_broker import LocalBroker


def said(rocketmq: LocalBroker, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    capsys.readouterr()
    code = run(["admin", *words, "--namesrv", rocketmq.namesrv])
    out = capsys.readouterr()
    return code, (out.out + out.err).strip()


def test_an_option_that_does_not_exist(rocketmq: LocalBroker, capsys: pytest.CaptureFixture[str]) -> None:
    code, line = said(rocketmq, capsys, "broker", "set", "broker-a", "fileReservedTme=24")
    assert code == 2
    assert line.endswith("has no option fileReservedTme; did you mean fileReservedTime?")
    assert said(rocketmq, capsys, "broker", "set", "broker-a", "fileReservedTime=71")[0] == 0


def test_a_broker_by_its_address_needs_no_name_server(
    rocketmq: LocalBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    nobody = ["--namesrv", "127.0.0.1:1"]
    assert run(["admin", "broker", "set", rocketmq.broker, "fileReservedTime=70", *nobody]) == 0
    assert run(["admin", "broker", "config", rocketmq.broker, "--filter", "fileReserved", *nobody]) == 0
    assert "fileReservedTime  70" in capsys.readouterr().out
    assert run(["admin", "broker", "status", rocketmq.broker, *nobody]) == 0
    assert "brokerVersionDesc" in capsys.readouterr().out
    assert run(["admin", "broker", "status", "broker-a", *nobody]) == 1


def test_a_topic_that_does_not_exist(rocketmq: LocalBroker, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(rocketmq, capsys, "topic", "create", "mistaken")[0] == 0
    deleted = said(rocketmq, capsys, "topic", "delete", "mistaken", "--yes")
    assert deleted == (0, "topic mistaken is deleted on broker-a")
    again = said(rocketmq, capsys, "topic", "delete", "mistaken", "--yes")
    assert again == (0, "topic mistaken was known to no name server; it is not on broker-a")


def test_an_id_that_names_no_broker(rocketmq: LocalBroker, capsys: pytest.CaptureFixture[str]) -> None:
    code, line = said(rocketmq, capsys, "message", "id", "A" * 32)
    assert code == 1
    assert "is no offset id: it names 170.170.170.170:-1431655766 as its broker" in line
