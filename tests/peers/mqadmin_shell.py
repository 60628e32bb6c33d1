"""Apache's `mqadmin` 5.4.0 in one JVM for many commands, and its output in a form to compare."""

from __future__ import annotations

import base64
import contextlib
import re
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.kit.class_archives import QUICK_START
from tests.needs import java
from tests.peers.machine import compiled, jars

SOURCE = Path(__file__).parent / "mqadmin" / "Shell.java"
POM = Path(__file__).parent / "judge" / "java" / "pom.xml"


@dataclass(frozen=True)
class Printed:
    """Output of one command."""

    out: str
    err: str

    def thrown(self) -> list[str]:
        """The exceptions of its stack traces, with their messages: mqadmin's way of telling a failure."""
        return re.findall(r"^(?:Caused by: )?([\w.$]*(?:Exception|Error)\b.*)$", self.err, re.MULTILINE)


class Shell:
    """A JVM that runs mqadmin's commands against one name server, one after the other."""

    def __init__(self, namesrv: str, home: Path) -> None:
        home.mkdir(parents=True, exist_ok=True)
        log = home / "logs"
        libraries = jars(POM, "mqadmin-5.4.0")
        self._errors = (home / "shell.err").open("w+")
        self._popen = subprocess.Popen(
            [
                java(),
                *QUICK_START,
                "-Xmx512m",
                f"-Duser.home={home}",
                f"-Drocketmq.home.dir={home}",
                f"-Drocketmq.client.logRoot={log}",
                f"-Drocketmq.log.root={log}",
                "-Drocketmq.client.logLevel=WARN",
                "-cp",
                f"{compiled(SOURCE, libraries)}:{libraries}/*",
                SOURCE.stem,
                namesrv,
            ],
            cwd=home,  # some commands leave files where they run
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,
        )

    def run(self, line: str, tries: int = 3) -> Printed:
        """Runs one command. The line is split at blanks; `~` stands for a blank within a word.

        mqadmin's time limits are short for a machine that does much else: what ran into one is run again.
        """
        printed = self._once(line)
        while tries > 1 and "RemotingTimeoutException" in printed.err:
            tries -= 1
            printed = self._once(line)
        return printed

    def _once(self, line: str) -> Printed:
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        words = [word.replace("~", " ") for word in line.split()]
        self._popen.stdin.write("\x1f".join(words) + "\n")
        self._popen.stdin.flush()
        answer = self._popen.stdout.readline()
        if not answer:
            self._errors.seek(0)
            raise AssertionError(f"the JVM ended at `{line}`: {self._errors.read()[-2000:]}")
        out, err = (base64.b64decode(part).decode() for part in answer.rstrip("\n").split(" "))
        return Printed(out, err)

    def done(self, line: str) -> str:
        """Runs one command that must not throw, and gives its output."""
        printed = self.run(line)
        assert not printed.thrown(), f"{line}: {printed.err}"
        return printed.out

    def end(self, how: signal.Signals) -> None:
        """Sends the JVM a signal, and waits for its end."""
        self._popen.send_signal(how)
        self._popen.wait(120)

    def close(self) -> None:
        """Ends the JVM."""
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._popen.stdin.close()
        try:
            self._popen.wait(120)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        self._popen.stdout.close()
        self._errors.close()


Normal = Callable[[str], str]
"""Takes out of an output what two servers cannot have in common."""

_PATTERNS = [
    (re.compile(r"\b\d+(?:\.\d+){3}@[\w#@]+"), "<client>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,:]\d{1,3})?"), "<time>"),
    (re.compile(r"\b2\d{3}\d{2}\d{2}\d{2}\d{2}\d{2}\d{3}\b"), "<time>"),
    (re.compile(r"\b1[6-9]\d{11}\b"), "<ms>"),
    (re.compile(r"\b[0-9A-F]{32}(?:[0-9A-F]{8})?(?:[0-9A-F]{16})?\b"), "<id>"),
    (re.compile(r"\b\d+(?:\.\d+){3}:\d+"), "<address>"),
    (re.compile(r"[\w.$]+(?:/0x[0-9a-f]+)?@[0-9a-f]{1,8}\b"), "<object>"),
    (re.compile(r"\b\d+ms\b"), "<took>"),
    (re.compile(r"\bspentTimeMills=\d+"), "<took>"),
    (re.compile(r"/?(?:/[\w.#@<>-]+){3,}"), "<path>"),
]


def plain(text: str) -> str:
    """Times, ids, addresses and paths taken out; runs of blanks are one."""
    for pattern, name in _PATTERNS:
        text = pattern.sub(name, text)
    lines = (" ".join(line.split()) for line in text.splitlines())
    return "\n".join(line for line in lines if line)


def without_lite(text: str) -> str:
    """The same without a type of topics that Apache's broker has since 5.5."""
    return plain(text).replace(", LITE]", "]")


def any_order(text: str) -> str:
    """The same for outputs whose lines come in the order of a hash table."""
    return "\n".join(sorted(plain(text).splitlines()))


def distinct(text: str) -> str:
    """The same, each line once, for outputs with as many lines of a kind as there happen to be clients."""
    return "\n".join(sorted(set(plain(text).splitlines())))


def users_groups(text: str) -> str:
    """The same, less the system's own groups: those show once they have something to note."""
    return any_order(re.sub(r"\bCID_RMQ_SYS_\w+", "", text))


def figures(text: str) -> str:
    """The same for outputs about load: every number is as good as another."""
    return re.sub(r"(?<![\w.])-?\d+(?:\.\d+)?(?:E-?\d+)?", "#", plain(text))


def loads(text: str) -> str:
    """The same for tables of what came and went, in any order: a counter that was sampled once tells of
    nothing yet, and when it is sampled follows from when it first counted.
    """
    return any_order(figures(text))


def without_retries(text: str) -> str:
    """The same without rows of retry topics: clients that leave early may not have kept their offsets."""
    return "\n".join(line for line in figures(text).splitlines() if not line.startswith("%RETRY%"))


def keys_only(text: str) -> str:
    """Names without their values, for tables of settings and figures."""
    rows = {re.split(r"\s*[:=](?:\s|$)", line, maxsplit=1)[0] for line in plain(text).splitlines()}
    return "\n".join(sorted(rows))
