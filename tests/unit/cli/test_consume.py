"""consume: messages of a topic as lines, in JSON, by an expression, up to the end or further."""

import json
import subprocess
import sys

import pytest

from orbitmq.cli.app import run
from orbitmq.sync import PushConsumer
from orbitmq.testing.local_broker import LocalBroker


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


def test_reading_to_the_end_of_a_topic_that_does_not_exist(
    rocketmq: LocalBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    reading = ["consume", "--topic", "no-such-topic", "--no-follow", "--idle", "0.5"]
    assert run([*reading, "--namesrv", rocketmq.namesrv]) == 1
    assert "no route to topic no-such-topic" in capsys.readouterr().err


def test_a_body_that_is_too_large_is_told_and_the_others_are_printed(
    rocketmq: LocalBroker, capfd: pytest.CaptureFixture[str]
) -> None:
    rocketmq.create_topic("hand-large", 1)  # the large one comes first
    server = ["--namesrv", rocketmq.namesrv, "--topic", "hand-large"]
    for body in ("x" * 5000, "small"):
        assert run(["produce", *server, "--body", body, "--quiet"]) == 0
    capfd.readouterr()
    reading = ["consume", *server, "--from", "first", "--max", "1", "--max-inflated-body-bytes", "1000"]
    assert run([*reading, "--group", "hand-large"]) == 0
    told = capfd.readouterr()
    assert told.out == "small\n"
    assert "not printed: " in told.err
    assert "raise --max-inflated-body-bytes" in told.err
    assert run([*reading, "--group", "hand-large-2", "--json"]) == 0
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert "raise --max-inflated-body-bytes" in next(one["bodyError"] for one in lines if "bodyError" in one)


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


def test_filters_of_other_members_move_no_cursor(
    rocketmq: LocalBroker, capfd: pytest.CaptureFixture[str]
) -> None:
    rocketmq.create_topic("hand-hostile", 2)
    member = PushConsumer("hand-hostile", rocketmq.namesrv)
    member.subscribe("hand-hostile", "a\x1b[2J\u202e", lambda _: None)
    command = ["consume", "--namesrv", rocketmq.namesrv, "--topic", "hand-hostile", "--group", "hand-hostile"]
    with member:
        capfd.readouterr()
        assert run([*command, "--no-follow"]) == 1
        assert r"a\x1b[2J\u202e" in capfd.readouterr().err
        joined = [sys.executable, "-m", "orbitmq", *command, "--join-anyway"]
        with subprocess.Popen(joined, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            warning = next(line for line in process.stderr if "different filters" in line)
            process.kill()
    assert r"a\x1b[2J\u202e" in warning


def test_what_python_logs_for_commands_without_logs_of_their_own_moves_no_cursor() -> None:
    code = r"""
import logging
from orbitmq.cli.app import run
run(["--version"])
logging.getLogger("a").warning("a\x1b[2J")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert done.stderr == "a\\x1b[2J\n"
