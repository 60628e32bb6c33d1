"""Apache's properties that no code of OrbitMQ reads: `apache.json` lists them, with the reason.

The file has a part for each server, and `network` for what all of them have in common. A part is a list of
groups: Apache's class, the reason why the properties change nothing (`without_effect`) or why other values
than the default are refused (`refused`), and rows: name, type, Apache's default, other fields of `Option`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from orbitmq.options.option import Option, Status

_GUARDED = re.compile(r"Path|Home|Dir$|PlugIn|Addr|Address|Provider|Credentials|User$|Whitelist")
"""Names of options that say where files or peers are, or who may do what: no update over the network."""


def apache_rows(*parts: str) -> list[Option]:
    """The rows of these parts of the file."""
    return [row for part in parts for row in rows_of(_parts()[part])]


def rows_of(groups: Iterable[dict[str, Any]]) -> list[Option]:
    """The rows of groups as the file has them.

    Of a row without effect, updates at run time are accepted as well, but for places and permissions.
    """
    rows: list[Option] = []
    for group in groups:
        reason = group.get("refused")
        for name, kind, default, *others in group["rows"]:
            other = dict(*others)
            if reason is None:
                fixed = {"status": Status.NO_EFFECT, "reason": group["without_effect"]}
                fixed["mutable"] = _GUARDED.search(name) is None
            else:
                # An empty text says as little as no text: it is what Apache's sample files hold.
                only = other.pop("only", (default, "") if default is None else (default,))
                fixed = {"status": Status.REFUSED, "reason": reason, "only": tuple(only)}
            rows.append(Option(name, kind, default, owner=group["owner"], **fixed, **other))
    return rows


@cache
def _parts() -> dict[str, list[dict[str, Any]]]:
    text = Path(__file__).with_name("apache.json").read_text("utf-8")
    parts: dict[str, list[dict[str, Any]]] = json.loads(text)
    return parts
