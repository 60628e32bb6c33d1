"""ping, produce and consume against a broker, as a person uses them."""

import json
import os
import signal
import subprocess
import sys
import time
from threading import Thread

import pytest

from orbitmq.cli import main
from orbitmq.cli.app import run
from orbitmq.testing.local_broker import LocalBroker


def test_ping(rocketmq: LocalBroker, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ping", "--namesrv", rocketmq.namesrv]) == 0
    assert capsys.readouterr().out.startswith(f"name server {rocketmq.namesrv} is healthy: knows 1 broker, ")
    assert run(["ping", "--broker", rocketmq.broker]) == 0
    assert capsys.readouterr().out.startswith(f"broker {rocketmq.broker} is healthy: version V5_4_0, ")
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
        assert run(["ping", "--wait", "20", "--namesrv", broker.namesrv]) == 0
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


def test_one_message_there_and_back(rocketmq: LocalBroker, capsys: pytest.CaptureFixture[str]) -> None:
    server = ["--namesrv", rocketmq.namesrv]
    what = ["--body", "hello ü", "--tag", "polite", "--key", "17", "--key", "18", "--property", "colour=red"]
    assert run(["produce", *server, "--topic", "hand-one", *what]) == 0
    assert capsys.readouterr().out.startswith("SEND_OK ")
    reading = [
        "consume",
        *server,
        "--topic",
        "hand-one",
        "--group",
        "hand-one",
        "--from",
        "first",
        "--max",
        "1",
    ]
    assert run([*reading, "--json"]) == 0
    message = json.loads(capsys.readouterr().out)
    assert message["body"] == "hello ü"
    assert (message["tag"], message["keys"], message["properties"]["colour"]) == (
        "polite",
        ["17", "18"],
        "red",
    )


class Input:
    """Standard input of a pipe."""

    def __init__(self, data: bytes | None) -> None:
        self._end, self._write = os.pipe()
        if data is not None:
            os.write(self._write, data)
            os.close(self._write)

    def fileno(self) -> int:
        return self._end

    def isatty(self) -> bool:
        return False


def test_lines_of_a_pipe_keep_their_order_with_a_sharding_key(
    rocketmq: LocalBroker, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = ["--namesrv", rocketmq.namesrv, "--topic", "hand-lines"]
    monkeypatch.setattr(sys, "stdin", Input(b"one\ntwo\r\n\nthree \nfour"))
    assert run(["produce", *server, "--sharding-key", "x", "--json"]) == 0
    results = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [result["queueOffset"] for result in results] == [0, 1, 2, 3]
    assert len({result["queueId"] for result in results}) == 1
    reading = ["consume", *server, "--group", "hand-lines", "--from", "first"]
    assert run([*reading, "--max", "2"]) == 0
    assert capfd.readouterr().out == "one\ntwo\n"
    assert run([*reading, "--no-follow", "--idle", "1"]) == 0
    assert capfd.readouterr().out == "three \nfour\n", "the group goes on where it ended"


def test_a_body_many_times_at_a_rate(rocketmq: LocalBroker, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--topic", "hand-rate", "--body", "x", "--count", "30", "--rate", "100", "--quiet"]
    assert run(["produce", "--namesrv", rocketmq.namesrv, *arguments]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    count, _, _, seconds, *_ = captured.err.split()
    assert count == "30"
    assert float(seconds) >= 0.2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--topic", "no such", "--body", "x"], "contains illegal characters"),
        (["--topic", "SCHEDULE_TOPIC_XXXX", "--body", "x"], "SCHEDULE_TOPIC_XXXX"),
        (["--topic", "t", "--body", "x", "--property", "KEYS=x"], "RocketMQ's own"),
        (["--topic", "t", "--body", ""], "at least one byte"),
    ],
)
def test_what_cannot_be_sent(
    rocketmq: LocalBroker, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["produce", "--namesrv", rocketmq.namesrv, *arguments]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("orbitmq: ")
    assert words in line


def test_an_input_that_says_nothing_does_not_keep_ctrl_c_from_ending_it(rocketmq: LocalBroker) -> None:
    command = [
        sys.executable,
        "-m",
        "orbitmq",
        "produce",
        "--namesrv",
        rocketmq.namesrv,
        "--topic",
        "hand-silent",
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"one\n")
        process.stdin.flush()
        assert process.stdout.read(7) == b"SEND_OK"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130


def test_a_line_that_is_too_long_is_one_line_on_standard_error(rocketmq: LocalBroker) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "orbitmq", "produce", "--topic", "long", "--namesrv", rocketmq.namesrv],
        input=b"x" * 5_000_000,
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr.decode() == "orbitmq: a body of 5000000 bytes is over the limit of 4194304\n"


def test_reading_to_the_end_of_a_topic_that_does_not_exist(
    rocketmq: LocalBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    reading = ["consume", "--topic", "no-such-topic", "--no-follow", "--idle", "0.5"]
    assert run([*reading, "--namesrv", rocketmq.namesrv]) == 1
    assert "no route to topic no-such-topic" in capsys.readouterr().err


def test_an_expression_chooses_messages(capfd: pytest.CaptureFixture[str]) -> None:
    with LocalBroker(enablePropertyFilter="true") as broker:
        server = ["--namesrv", broker.namesrv, "--topic", "hand-sql"]
        for price in ("5", "15"):
            what = ["--body", f"costs {price}", "--property", f"price={price}", "--quiet"]
            assert run(["produce", *server, *what]) == 0
        capfd.readouterr()
        reading = ["consume", *server, "--from", "first", "--no-follow", "--idle", "1"]
        assert run([*reading, "--sql", "price > 10"]) == 0
        assert capfd.readouterr().out == "costs 15\n"
        assert run([*reading, "--sql", "price >"]) == 1
        assert "the expression ends too early" in capfd.readouterr().err
        assert run([*reading, "--sql", " "]) == 2
        assert run([*reading, "--sql", "price > 10", "--tag", "A"]) == 2


def test_ctrl_c_while_modules_are_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("orbitmq.cli.app.run", interrupted)
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, capsys.readouterr().err) == (130, "aborted\n")
