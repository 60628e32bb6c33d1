"""One option: one row, from which files, flags, environment variables, updates and documents follow."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from orbitmq.options.errors import InvalidValue, RefusedValue

Value = bool | int | float | str | None
"""Values of options. None: not set, for an option without a default."""


class Status(Enum):
    """The treatment of a property of Apache's broker or name server."""

    HONOURED = "honoured"
    NO_EFFECT = "accepted without effect"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Option:
    """A row. `name` is the one in Apache's properties files, and the one in messages to people."""

    name: str
    kind: str
    """As Apache names it: boolean, int, long, double, String, or the name of an enumeration."""
    default: Value
    doc: str = ""
    owner: str = "BrokerConfig"
    """Apache's class (or classes) of which this is a field; empty if it is OrbitMQ's own."""
    unit: str = ""
    """ms, s, min, h, bytes, messages, %, ...; empty where the value is a plain number or no number."""
    apache_default: str | None = None
    """Apache's default where it is another one, in words."""
    mutable: bool = False
    """May UPDATE_BROKER_CONFIG or UPDATE_NAMESRV_CONFIG change it while the process runs."""
    status: Status = Status.HONOURED
    reason: str = ""
    """The reason why it has no effect, or why values are refused."""
    choices: tuple[str, ...] = ()
    """Every value of an enumeration, refused ones included."""
    only: tuple[Value, ...] = ()
    """If not empty: the accepted values; others are refused with `reason`."""
    minimum: int | None = None
    maximum: int | None = None
    secret: bool = False
    """Its value is never shown: neither in answers nor in what is said to be wrong with it."""

    @property
    def key(self) -> str:
        """The name in Python and TOML."""
        return snake_case(self.name)

    @property
    def environment_variable(self) -> str:
        return f"ORBITMQ_{self.key.upper()}"

    def parse(self, raw: object, source: str) -> Value:
        """The value that text, or a value of TOML, stands for. Raises InvalidValue or RefusedValue."""
        value = self._typed(raw, source)
        if self.only and value not in self.only:
            raise RefusedValue(self.name, _shown(value), self.reason, source)
        return value

    def _typed(self, raw: object, source: str) -> Value:
        if raw is None:
            return None
        text = _shown(raw).strip()
        if self.choices:
            for choice in self.choices:
                if text.upper() == choice.upper():
                    return choice
        elif self.kind == "boolean":
            if text.lower() in ("true", "false"):
                return text.lower() == "true"
        elif self.kind == "double":
            try:
                number = float(text)
            except ValueError:
                pass
            else:
                if abs(number) < float("inf"):
                    return number
        elif self.kind in INTEGER_LIMITS:
            low, high = self._limits()
            if re.fullmatch(r"[+-]?[0-9]{1,19}", text) and low <= int(text) <= high:
                return int(text)
        else:
            return text
        raise InvalidValue(self.name, _shown(raw), self.expected, source)

    @property
    def expected(self) -> str:
        """The form of a valid value, in words."""
        if self.choices:
            return " or ".join(self.choices)
        if self.kind == "boolean":
            return "true or false"
        if self.kind == "double":
            return "a number"
        if self.kind in INTEGER_LIMITS:
            low, high = self._limits()
            unit = f" ({self.unit})" if self.unit else ""
            if self.minimum is None and self.maximum is None:
                return f"a whole number{unit} of {32 if self.kind == 'int' else 64} bits"
            if self.maximum is None:
                return f"a whole number{unit}, {low} or more"
            return f"a whole number{unit} from {low} to {high}"
        return "a text"

    def _limits(self) -> tuple[int, int]:
        low, high = INTEGER_LIMITS[self.kind]
        return (
            low if self.minimum is None else self.minimum,
            high if self.maximum is None else self.maximum,
        )


INTEGER_LIMITS = {"int": (-(2**31), 2**31 - 1), "long": (-(2**63), 2**63 - 1)}


def snake_case(name: str) -> str:
    """`brokerIP1` as `broker_ip1`, `enableDLegerCommitLog` as `enable_d_leger_commit_log`, dots as `_`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|\.", "_", name).lower()


def to_text(value: Value) -> str:
    """A value as Java writes it into a properties file; None is the empty text."""
    if value is None:
        return ""
    return _shown(value)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
