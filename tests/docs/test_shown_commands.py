"""Commands that pages show without their output: each can be given so, and is run by a test or has a reason.

Blocks with output (```console) are run word by word: see test_console.py.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from orbitmq.cli.app import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]

FOREIGN = {
    "pip install": "tests/packaging installs wheels with their extras",
    "make": "the benchmarks take hours",
    "python": "the benchmarks take hours, and tests/packaging builds the wheel",
    "docker": "tests/peers/test_container.py does what the Dockerfile says; most machines have no Docker",
    "ORBITMQ_PUBLISH": "tests/unit/deploy reads the compose files; most machines have no Docker",
    "kubectl": "tests/unit/deploy checks the files by their schemas; there is no cluster of Kubernetes",
    "helm": "tests/unit/deploy renders the chart; there is no cluster of Kubernetes",
    "token": "tests/unit/console/api/test_session.py sends the header; curl is another client",
    "curl": "tests/unit/console/api/test_session.py sends the header; curl is another client",
    "export": "tests/unit/deploy/test_deploy.py reads the variables out of the compose files",
}
"""Beginnings of commands that no test runs as they are, and the reason."""

TESTS = {
    "job archive": "tests/unit/spark/lake/test_iceberg.py",
    "job replay": "tests/spark/test_resend_jobs.py",
    "job dlq": "tests/spark/test_redrive.py",
    "job audit": "tests/spark/test_audit.py",
    "admin broker set": "tests/peers/test_admin_commands.py",
    "admin namesrv set": "tests/unit/admin/test_name_servers.py",
    "admin topic static": "tests/client/test_static_topics.py",
    "admin topic move": "tests/client/test_static_topics.py",
    "admin snapshot": "tests/packaging/operators_day.py",
    "standalone": "tests/packaging/trial.py",
    "namesrv": "tests/unit/cli/test_processes.py",
    "broker": "tests/unit/cli/test_shards.py",
    "console": "tests/unit/cli/test_console.py",
    "console set-user": "tests/unit/cli/test_console.py",
    "delay serve": "tests/delay/test_instances.py",
    "proxy": "tests/peers/proxy_process.py",
}
"""Commands of blocks, and the test that runs each: pages name hosts and files of other machines."""


def blocks() -> Iterator[tuple[str, str]]:
    """The page, and each line of each indented block that begins with a program."""
    known = {"orbitmq", *(begin.split()[0] for begin in FOREIGN)}
    for path in PAGES:
        text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
        for block in re.findall(r"(?<=\n\n)(?:    .*\n)+", text):
            lines = [line.strip() for line in re.sub(r"\\\n +", "", block).splitlines()]
            if re.split("[ =]", lines[0])[0] in known and not lines[0].startswith("orbitmq batch"):
                yield from ((str(path.relative_to(ROOT)), line) for line in lines)


SHOWN = list(blocks())
OURS = [(page, line) for page, line in SHOWN if line.startswith("orbitmq ")]


def parsed(words: list[str]) -> str:
    """Has click read a command line, and gives the name of the command. Raises ClickException."""
    path = list[str]()
    context = app.make_context("orbitmq", words)
    while isinstance(context.command, click.Group) and (rest := [*context._protected_args, *context.args]):
        name, command, words = context.command.resolve_command(context, rest)
        path.append(str(name))
        assert command is not None
        context = command.make_context(name, words, parent=context)
    return " ".join(path)


@pytest.mark.parametrize(("page", "line"), OURS)
def test_a_command_can_be_given_as_the_page_shows_it(page: str, line: str) -> None:
    name = parsed(shlex.split(line, comments=True)[1:])
    assert name.split()[-1] in (ROOT / TESTS[name]).read_text()


def test_no_test_is_named_for_commands_that_no_page_shows() -> None:
    assert set(TESTS) == {parsed(shlex.split(line, comments=True)[1:]) for _, line in OURS}


def test_other_programs_have_a_reason_to_be_in_no_test() -> None:
    others = [line for page, line in SHOWN if (page, line) not in OURS]
    assert [line for line in others if not line.startswith(tuple(FOREIGN))] == []
    assert [begin for begin in FOREIGN if not any(line.startswith(begin) for line in others)] == []


def mentioned() -> list[tuple[str, str]]:
    """The page and the text of each command of ours that a sentence or table names."""
    return [
        (str(path.relative_to(ROOT)), " ".join(code.split()))
        for path in PAGES
        if "api" not in path.parts
        for code in re.findall(r"(?<!`)`(orbitmq [^`]+)`", path.read_text())
    ]


@pytest.mark.parametrize(("page", "code"), sorted(set(mentioned())))
def test_a_command_that_a_sentence_names_exists_with_its_options(page: str, code: str) -> None:
    command: click.Command | None = app
    options: set[str] = {"--help"}
    words = re.split(r"[\s|=\[\]()…,]+", code)[1:]
    for word in words:
        assert command is not None
        context = click.Context(command)
        options |= {flag for one in command.get_params(context) for flag in (*one.opts, *one.secondary_opts)}
        if word.startswith("-"):
            assert word in options, f"{command.name} has no {word}"
        elif isinstance(command, click.Group) and re.fullmatch("[a-z][a-z-]+", word):
            found = command.get_command(context, word)
            assert found is not None or word in options, f"{command.name} has no command {word}"
            command = found
