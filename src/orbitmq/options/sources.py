"""Sources of options: a file, the environment, `--set`, and flags. Each source becomes one layer."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orbitmq.options.errors import OptionError, UnreadableSource
from orbitmq.options.properties import parse_numbered

MAX_FILE_BYTES = 1 << 20
NAMESRV_PREFIX = "namesrv."
"""Before a name: the option of the name server, in a process that runs a broker as well."""
_ENVIRONMENT_PREFIX = "ORBITMQ_"
_TOML_TABLE = re.compile(r"\s*\[\s*([\w-]+)\s*\]")
_TOML_KEY = re.compile(r"""\s*["']?([\w.-]+)["']?\s*=""")


@dataclass(frozen=True, slots=True)
class Layer:
    """Values of one source by name, as text or as TOML has them."""

    source: str
    values: Mapping[str, Any]
    lenient: bool = False
    """A name that no option has is passed over. Only the environment is: it holds variables of others."""
    broker: Mapping[str, Any] = field(default_factory=dict)
    namesrv: Mapping[str, Any] = field(default_factory=dict)
    """Values that are meant for one of the two servers alone."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """The line of a file on which a name stands, in `values`, `broker` or `namesrv`."""

    def place(self, name: str) -> str:
        """The source of one value, as errors name it: a file with the line, where that is known."""
        line = self.lines.get(name)
        return self.source if line is None else f"{self.source} line {line}"

    def for_broker(self) -> Layer:
        """The layer as a process that is nothing but a broker reads it."""
        return Layer(self.source, {**self.values, **self.broker}, self.lenient, lines=self._lines("broker."))

    def for_namesrv(self) -> Layer:
        """The layer as a process that is nothing but a name server reads it."""
        return Layer(
            self.source, {**self.values, **self.namesrv}, self.lenient, lines=self._lines("namesrv.")
        )

    def _lines(self, prefix: str) -> Mapping[str, int]:
        """The lines by name, where a name with `prefix` wins over the one without."""
        of_one = {name.removeprefix(prefix): n for name, n in self.lines.items() if name.startswith(prefix)}
        return {**self.lines, **of_one}

    def split(
        self, is_broker: Callable[[str], bool], is_namesrv: Callable[[str], bool]
    ) -> tuple[Layer, Layer]:
        """The layer as a process with both reads it: a name that both have is the broker's.

        A value that neither has goes to the broker, which says so.
        """
        of_namesrv = {
            name: value for name, value in self.values.items() if not is_broker(name) and is_namesrv(name)
        }
        of_broker = {name: value for name, value in self.values.items() if name not in of_namesrv}
        return (
            Layer(self.source, {**of_broker, **self.broker}, self.lenient, lines=self._lines("broker.")),
            Layer(self.source, {**of_namesrv, **self.namesrv}, self.lenient, lines=self._lines("namesrv.")),
        )


def read_file(path: Path) -> Layer:
    """A file of options: TOML if its name ends in .toml, else Java properties. Raises UnreadableSource."""
    source = str(path)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UnreadableSource(source, f"cannot be read: {error.strerror}") from None
    if len(data) > MAX_FILE_BYTES:
        raise UnreadableSource(source, f"is no file of options: it has more than {MAX_FILE_BYTES} bytes")
    if b"\0" in data:
        raise UnreadableSource(source, "is no file of options: it holds zero bytes")
    if path.suffix == ".toml":
        return _from_toml(source, data)
    found = parse_numbered(data, source)
    lines = {name: number for name, (_, number) in found.items()}
    return _split_prefixed(source, ((name, value) for name, (value, _) in found.items()), lines)


def _from_toml(source: str, data: bytes) -> Layer:
    try:
        text = data.decode("utf-8")
        document = tomllib.loads(text)
    except UnicodeDecodeError:
        raise UnreadableSource(source, "is not UTF-8, as TOML has to be") from None
    except tomllib.TOMLDecodeError as error:
        raise UnreadableSource(source, f"is not TOML: {error}") from None
    values: dict[str, Any] = {}
    tables: dict[str, dict[str, Any]] = {"broker": {}, "namesrv": {}}
    for name, value in document.items():
        if not isinstance(value, dict):
            values[name] = _plain(source, name, value)
        elif name in tables:
            tables[name] = {key: _plain(source, f"{name}.{key}", inner) for key, inner in value.items()}
        else:
            raise UnreadableSource(source, f"table [{name}] is none of [broker] and [namesrv]")
    return Layer(
        source, values, broker=tables["broker"], namesrv=tables["namesrv"], lines=_lines_of_toml(text)
    )


def _lines_of_toml(text: str) -> dict[str, int]:
    """The line of each key by its dotted name; keys in unusual notation are left out."""
    lines: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := _TOML_TABLE.match(line):
            table = f"{header[1]}."
        elif key := _TOML_KEY.match(line):
            lines.setdefault(table + key[1], number)
    return lines


def _plain(source: str, name: str, value: Any) -> Any:
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return ";".join(value)
    if not isinstance(value, (bool, int, float, str)):
        raise UnreadableSource(source, f"{name} is neither a text, a number, true, false nor a list of texts")
    return value


def from_assignments(assignments: Iterable[str], source: str = "--set") -> Layer:
    """`NAME=VALUE` texts. Raises OptionError for one without an equals sign."""
    pairs = []
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise OptionError(f"{source} {text}: expected NAME=VALUE")
        pairs.append((name.strip(), value))
    return _split_prefixed(source, pairs)


def from_environment(environment: Mapping[str, str]) -> Layer:
    """Variables `ORBITMQ_<KEY>`; `ORBITMQ_NAMESRV_<KEY>` for the name server alone."""
    values = {}
    namesrv = {}
    for variable, value in environment.items():
        if not variable.startswith(_ENVIRONMENT_PREFIX):
            continue
        key = variable[len(_ENVIRONMENT_PREFIX) :].lower()
        values[key] = value
        if key.startswith("namesrv_"):
            namesrv[key.removeprefix("namesrv_")] = value
    return Layer("environment", values, lenient=True, namesrv=namesrv)


def _split_prefixed(
    source: str, pairs: Iterable[tuple[str, str]], lines: Mapping[str, int] | None = None
) -> Layer:
    values = {}
    namesrv = {}
    for name, value in pairs:
        if name.startswith(NAMESRV_PREFIX):
            namesrv[name.removeprefix(NAMESRV_PREFIX)] = value
        else:
            values[name] = value
    return Layer(source, values, namesrv=namesrv, lines=lines or {})
