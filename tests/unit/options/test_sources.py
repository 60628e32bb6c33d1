from pathlib import Path

import pytest

from orbitmq.options import OptionError, UnreadableSource, from_assignments, from_environment, read_file


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_properties_file(tmp_path: Path) -> None:
    layer = read_file(write(tmp_path / "broker.conf", "brokerName = a\nnamesrv.listenPort=1\n"))
    assert layer.values == {"brokerName": "a"}
    assert layer.namesrv == {"listenPort": "1"}
    assert layer.source == str(tmp_path / "broker.conf")


def test_toml_file(tmp_path: Path) -> None:
    text = """
        broker_name = "a"
        namesrvAddr = ["x:1", "y:2"]
        [broker]
        listen_port = 5
        [namesrv]
        listen_port = 6
        """
    layer = read_file(write(tmp_path / "orbitmq.toml", text))
    assert layer.for_broker().values == {"broker_name": "a", "namesrvAddr": "x:1;y:2", "listen_port": 5}
    assert layer.for_namesrv().values["listen_port"] == 6


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.toml", "x = ", "is not TOML"),
        ("a.toml", b"\xff", "not UTF-8"),
        ("a.toml", "[other]\nx = 1\n", r"table \[other\]"),
        ("a.toml", "x = [1, 2]", "neither a text"),
        ("a.toml", "x = 2026-01-01", "neither a text"),
        ("a.toml", "[broker.deep]\nx = 1", "neither a text"),
        ("a.conf", b"PK\x03\x04\0\0", "zero bytes"),
        ("a.conf", b"#" * ((1 << 20) + 1), "more than"),
        ("a.conf", "x=\\uZZ", "line 1: malformed"),
    ],
)
def test_files_that_are_something_else(tmp_path: Path, name: str, content: str | bytes, words: str) -> None:
    with pytest.raises(UnreadableSource, match=words):
        read_file(write(tmp_path / name, content))


def test_a_file_that_is_not_there_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(UnreadableSource, match="No such file"):
        read_file(tmp_path / "none")
    with pytest.raises(UnreadableSource, match="Is a directory"):
        read_file(tmp_path)


def test_assignments() -> None:
    layer = from_assignments(["a=b=c", " x =", "namesrv.y=1"])
    assert layer.values == {"a": "b=c", "x": ""}
    assert layer.namesrv == {"y": "1"}


@pytest.mark.parametrize("text", ["", "a", "=b", " =b"])
def test_assignments_without_name_or_sign(text: str) -> None:
    with pytest.raises(OptionError, match="expected NAME=VALUE"):
        from_assignments([text])


def test_environment() -> None:
    layer = from_environment(
        {"ORBITMQ_BROKER_NAME": "a", "ORBITMQ_NAMESRV_LISTEN_PORT": "7", "BROKER_NAME": "b", "HOME": "/"}
    )
    assert layer.lenient
    assert layer.values["broker_name"] == "a"
    assert layer.for_namesrv().values["listen_port"] == "7"
    assert "BROKER_NAME" not in layer.values


def test_a_layer_for_two_servers() -> None:
    layer = from_assignments(["both=1", "first=2", "second=3", "neither=4", "namesrv.both=5"])
    broker, namesrv = layer.split({"both", "first"}.__contains__, {"both", "second"}.__contains__)
    assert broker.values == {"both": "1", "first": "2", "neither": "4"}
    assert namesrv.values == {"second": "3", "both": "5"}
