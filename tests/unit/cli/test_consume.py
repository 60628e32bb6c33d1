"""consume: messages of a topic as lines, in JSON, by an expression, up to the end or further."""

import json

import pytest

from orbitmq.cli.app import run
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
