import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from orbitmq import __version__
from orbitmq.cli import main
from orbitmq.cli.app import PLACES, app, run


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith(f"orbitmq, version {__version__} (Python 3.")


def test_every_command_has_help_with_examples(capsys: pytest.CaptureFixture[str]) -> None:
    for name in PLACES:
        assert run([name, "--help"]) == 0
        text = capsys.readouterr().out
        assert text.startswith(f"Usage: orbitmq {name}")
        assert f"orbitmq {name}" in text.split("\n", 1)[1], name


def test_help_lists_commands_without_loading_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    text = capsys.readouterr().out
    for name, (_, line) in PLACES.items():
        assert f"{name} " in text
        assert line in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["standalon"], "Did you mean 'standalone'?"),
        (["topic", "list"], "Did you mean 'admin topic'?"),
        (["admin", "topics"], "Did you mean 'topic'?"),
        (["admin", "topic", "lst"], "Did you mean 'list'?"),
        (["admin", "group", "reset"], "Did you mean 'reset-offset'?"),
        (["standalone", "--data-dirr", "x"], "--data-dir"),
        (["broker", "--port", "1"], "not in the range"),
        (["broker", "--advertise", "a:b"], "host:port"),
        (["broker", "--advertise", "a b"], "not a host"),
        (["ping", "--timeout", "0"], "not in the range"),
        (["completion", "tcsh"], "'tcsh' is not one of"),
        (["produce"], "--topic"),
        (
            ["produce", "--topic", "t", "--delay-level", "99"],
            "'99' is not a delay level: 0 delivers at once, 1 to",
        ),
        (["produce", "--topic", "t", "--delay-level", "-1"], "'-1' is not a delay level"),
        (["produce", "--topic", "t", "--delay-level", "1m"], "'1m' is not a delay level"),
        (["produce", "--topic", "t", "--count", "2"], "--count needs --body"),
        (["produce", "--topic", "t", "--body", "x", "--property", "y"], "expected NAME=VALUE"),
        (["admin", "group", "reset-offset", "g", "t", "-y"], "either --to or --offset"),
        (["admin", "group", "reset-offset", "g", "t", "--offset", "1", "-y"], "--offset needs --queue"),
        (["admin", "group", "reset-offset", "g", "t", "--to", "someday", "-y"], "is no time: now"),
        (["admin", "broker", "set", "b", "x"], "expected NAME=VALUE"),
        (["admin", "user", "create", "ann"], "no terminal to ask for a password"),
        (["consume", "--topic", "t", "--tag", "||"], "--tag: '||' names no tag"),
        (["prove", "--set", "flushDiskTyp=SYNC_FLUSH"], "did you mean flushDiskType?"),
        (["admin", "topic", "list", "--namesrv", "nonsense"], "not an address"),
    ],
)
def test_wrong_usage_is_code_2_and_says_why(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(
    "arguments", [["ping"], ["admin", "topic", "list"], ["admin", "cluster", "list", "--json"]]
)
def test_nobody_there_is_code_1_and_one_line(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*arguments, "--namesrv", "127.0.0.1:1"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("orbitmq: ")
    assert line.endswith("cannot connect to 127.0.0.1:1: Connection refused")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    assert "_ORBITMQ_COMPLETE" in capsys.readouterr().out


def test_completion_knows_commands_of_every_level() -> None:
    context = click.Context(app)
    assert set(app.list_commands(context)) == set(PLACES)
    admin = app.get_command(context, "admin")
    assert isinstance(admin, click.Group)
    assert "route" in admin.commands["topic"].commands  # type: ignore[attr-defined]


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orbitmq.cli.ping.parse_addresses", lambda text: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(["ping"])


def test_main_ends_the_process_with_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["orbitmq", "--nonsense"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2


def test_no_server_is_imported_to_show_help() -> None:
    code = (
        "import sys, orbitmq.cli.app as app; app.run(['--help']); "
        "print([name for name in sys.modules if 'orbitmq.server' in name])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path("/")
    )
    assert result.stdout.splitlines()[-1] == "[]"


def test_the_two_kinds_of_delays_name_each_others_commands(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["admin", "delay", "--help"]) == 0
    of_brokers = capsys.readouterr().out
    assert "orbitmq delay" in " ".join(of_brokers.split())
    assert run(["delay", "--help"]) == 0
    named = re.findall(r"`orbitmq admin delay (\w+)`", " ".join(capsys.readouterr().out.split()))
    assert named
    assert all(re.search(rf"^  {name} ", of_brokers, re.M) for name in named)
