"""Option texts to values: names, counts, yes and no, spans of time, points in time."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

from orbitmq.protocol.records.compression import DEFAULT_MAX_INFLATED_BYTES
from orbitmq.spark.errors import BadOption

MAX_INFLATED_BODY_BYTES = 256 << 20
"""Largest value of the option maxInflatedBodyBytes: a batch ends at 512 MiB."""

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def unknown(key: str, names: Iterable[str], *, where: str = "", meant: str = "") -> BadOption:
    """The error for an option that is none of `names`: with `meant`, or with the nearest of them."""
    known = tuple(names)
    hint = f"; did you mean {meant}?" if meant else nearest(key, known)
    return BadOption(f"unknown option {key}{where}{hint} Options: {', '.join(known)}")


def nearest(name: str, names: Iterable[str]) -> str:
    """The end of a sentence that asks whether the most similar of `names` is meant; empty where none is."""
    known = {one.lower(): one for one in names}
    near = difflib.get_close_matches(name.lower(), known, n=1)
    return f"; did you mean {known[near[0]]}?" if near else ""


def count(values: Mapping[str, str], name: str) -> int | None:
    """A whole number above 0; None where the option is not set. Raises BadOption."""
    text = values.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise BadOption(f"{name} has to be a whole number above 0, not {text!r}")
    return int(text)


def max_inflated_body(values: Mapping[str, str]) -> int:
    """The maximum of an inflated body in bytes. Raises BadOption."""
    name = "maxInflatedBodyBytes"
    most = count(values, name) or DEFAULT_MAX_INFLATED_BYTES
    if most > MAX_INFLATED_BODY_BYTES:
        raise BadOption(f"{name} has to be {MAX_INFLATED_BODY_BYTES} at most, not {most}")
    return most


def boolean(values: Mapping[str, str], name: str, *, default: bool) -> bool:
    """`true` or `false`, in any case. Raises BadOption."""
    text = values.get(name)
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise BadOption(f"{name} is true or false, not {text!r}")
    return text.lower() == "true"


def span_ms(values: Mapping[str, str], name: str, *, default_ms: int) -> int:
    """A span as Spark writes it: `500ms`, `30s`, `15m`, `2h`, `1d`; a bare number is seconds.

    Raises BadOption.
    """
    text = values.get(name)
    if text is None:
        return default_ms
    found = re.fullmatch(r"(\d+)\s*([a-z]*)", text.lower(), re.ASCII)
    unit = _UNITS_MS.get(found.group(2) or "s") if found else None
    if found is None or unit is None:
        raise BadOption(f"{name} is a span like 500ms, 30s, 15m or 2h, not {text!r}")
    return int(found.group(1)) * unit


def time_ms(values: Mapping[str, str], name: str) -> int | None:
    """A point in time in ms since 1970; None where the option is not set. Raises BadOption."""
    text = values.get(name)
    if text is None:
        return None
    if not re.fullmatch(r"\d+", text, re.ASCII):
        raise BadOption(f"{name} is a time in milliseconds since 1970, not {text!r}")
    return int(text)
