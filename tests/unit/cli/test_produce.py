"""produce: a body, the lines of a pipe, many at a rate; what cannot be sent is one line."""

import json
import os
import random
import signal
import subprocess
import sys

import pytest

from orbitmq.cli.app import run
from orbitmq.testing.local_broker import LocalBroker


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
        input=random.Random(0).randbytes(5_000_000).replace(b"\n", b"x"),  # it does not shrink
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr.decode() == "orbitmq: a body of 5000000 bytes is over the limit of 4194304\n"
