"""Where options come from: a file, the environment, `--set`, and flags. Each source becomes one layer."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orbitmq.options.errors import OptionError, UnreadableSource
from orbitmq.options.properties import parse_properties

MAX_FILE_BYTES = 1 << 20
NAMESRV_PREFIX = "namesrv."
"""Before a name: the option of the name server, in a process that runs a broker as well."""
_ENVIRONMENT_PREFIX = "ORBITMQ_"


@dataclass(frozen=True, slots=True)
class Layer:
    """What one source says: values by name, text or as TOML has them."""

    source: str
    values: Mapping[str, Any]
    lenient: bool = False
    """A name that no option has is passed over. Only the environment is: it holds variables of others."""
    broker: Mapping[str, Any] = field(default_factory=dict)
    namesrv: Mapping[str, Any] = field(default_factory=dict)
    """Values that are meant for one of the two servers alone."""

    def for_broker(self) -> Layer:
        """The layer as a process that is nothing but a broker reads it."""
        return Layer(self.source, {**self.values, **self.broker}, self.lenient)

    def for_namesrv(self) -> Layer:
        """The layer as a process that is nothing but a name server reads it."""
        return Layer(self.source, {**self.values, **self.namesrv}, self.lenient)

    def split(
        self, is_broker: Callable[[str], bool], is_namesrv: Callable[[str], bool]
    ) -> tuple[Layer, Layer]:
        """The layer as a process with both reads it: a name that both have is the broker's.

        What neither has goes to the broker, which says so.
        """
        of_namesrv = {
            name: value for name, value in self.values.items() if not is_broker(name) and is_namesrv(name)
        }
        of_broker = {name: value for name, value in self.values.items() if name not in of_namesrv}
        return (
            Layer(self.source, {**of_broker, **self.broker}, self.lenient),
            Layer(self.source, {**of_namesrv, **self.namesrv}, self.lenient),
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
    return _split_prefixed(source, parse_properties(data, source).items())


def _from_toml(source: str, data: bytes) -> Layer:
    try:
        document = tomllib.loads(data.decode("utf-8"))
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
    return Layer(source, values, broker=tables["broker"], namesrv=tables["namesrv"])


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


def _split_prefixed(source: str, pairs: Iterable[tuple[str, str]]) -> Layer:
    values = {}
    namesrv = {}
    for name, value in pairs:
        if name.startswith(NAMESRV_PREFIX):
            namesrv[name.removeprefix(NAMESRV_PREFIX)] = value
        else:
            values[name] = value
    return Layer(source, values, namesrv=namesrv)
