"""ping: servers are healthy, down or awaited, in words for people and in JSON for programs."""

import json
import time
from threading import Thread

import pytest

from orbitmq import __version__
from orbitmq.cli.app import run
from orbitmq.testing.local_broker import LocalBroker


def test_ping(rocketmq: LocalBroker, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ping", "--namesrv", rocketmq.namesrv]) == 0
    assert capsys.readouterr().out.startswith(f"name server {rocketmq.namesrv} is healthy: knows 1 broker, ")
    assert run(["ping", "--broker", rocketmq.broker]) == 0
    assert capsys.readouterr().out.startswith(
        f"broker {rocketmq.broker} is healthy: version OrbitMQ {__version__} (V5_4_0), "
    )
    assert run(["ping", "--broker", rocketmq.broker, "--namesrv", rocketmq.namesrv, "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert run(["ping", "--namesrv", f"{rocketmq.namesrv};127.0.0.1:1"]) == 1
    capsys.readouterr()


def test_ping_tells_programs_in_json(rocketmq: LocalBroker, capsys: pytest.CaptureFixture[str]) -> None:
    servers = ["--broker", rocketmq.broker, "--namesrv", rocketmq.namesrv]
    assert run(["ping", *servers, "--json"]) == 0
    broker, namesrv = map(json.loads, capsys.readouterr().out.splitlines())
    assert (broker.pop("ms") > 0, namesrv.pop("ms") > 0) == (True, True)
    assert broker == {"kind": "broker", "address": rocketmq.broker, "version": "V5_4_0"}
    assert namesrv == {"kind": "name server", "address": rocketmq.namesrv, "brokers": 1}


def test_a_probe_of_a_broker_asks_no_name_server(
    rocketmq: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "127.0.0.1:1")
    assert run(["ping", "--broker", rocketmq.broker]) == 0
    assert run(["ping"]) == 1


def test_ping_waits_until_messages_can_be_sent(capsys: pytest.CaptureFixture[str]) -> None:
    broker = LocalBroker()
    starting = Thread(target=broker.start)
    try:
        starting.start()
        assert run(["ping", "--wait", "100", "--namesrv", broker.namesrv]) == 0
        assert "knows 1 broker" in capsys.readouterr().out
        assert run(["produce", "--namesrv", broker.namesrv, "--topic", "at-once", "--body", "x"]) == 0
    finally:
        starting.join()
        broker.stop()


def test_ping_does_not_wait_for_ever(capsys: pytest.CaptureFixture[str]) -> None:
    started = time.monotonic()
    assert run(["ping", "--wait", "0.3", "--namesrv", "127.0.0.1:1"]) == 1
    assert time.monotonic() - started >= 0.3
    assert "cannot connect to 127.0.0.1:1" in capsys.readouterr().err
