"""Writes the parts of docs/ that follow from the code: `make docs`. A test holds that they are in step.

A part stands between `<!-- NAME: written by make docs -->` and `<!-- end of NAME -->`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import orbitmq.protocol.requests.every  # noqa: F401 (declares them)
from docs import api, availability, spark_sink, spark_source, spark_stores
from orbitmq.broker.broker import handlers as broker_handlers
from orbitmq.broker.not_served import NOT_SERVED
from orbitmq.broker.options import BROKER_TABLE
from orbitmq.controller.options import CONTROLLER_TABLE
from orbitmq.nameserver.options import NAMESRV_TABLE
from orbitmq.options import Option, OptionTable
from orbitmq.options.option import Status, to_text
from orbitmq.protocol import wire_table
from orbitmq.protocol.requests.unused import UNUSED
from orbitmq.protocol.schema.declare import REQUESTS, Request
from orbitmq.proxy.options import PROXY_TABLE
from tests.peers.mqadmin_rows import LEFT_OUT, ROWS
from tests.peers.suites import JUDGE, cases_of, missing_for
from tests.reported.rows import markdown as reported

HERE = Path(__file__).parent
SUITES = {
    "remoting": "Apache's Java client 5.4.0 (remoting)",
    "guarded": "The same client signing, with users and rules on",
    "mqadmin": "Apache's `mqadmin` 5.4.0",
    "go4": "The Go client rocketmq-client-go v2.1.2",
    "files": "Store directories, from Apache to OrbitMQ and back, after a clean stop and after a kill",
}
SEEN = {"java": "Java", "mqadmin": "mqadmin", "go": "Go"}


def cases() -> str:
    """Every case of the judge: what must hold, and whether it does."""
    row = r"^\| (\w+) \| (?:pass[^|]*\| [\d.]+ \| )?(.*) \|$"
    listed = re.findall(row, (JUDGE / "CASES.md").read_text(), re.MULTILINE)
    holds = {name: _cell(what) for name, what in listed}
    parts = []
    for suite, title in SUITES.items():
        names = cases_of(suite)
        lacks = {case: missing_for(suite, case) for case in names}
        works = sum(lack is None for lack in lacks.values())
        table = "".join(f"| {case} | {holds[case]} | {_state(lacks[case])} |\n" for case in sorted(names))
        head = f"### {title}\n\n{works} of {len(names)} cases are run and pass.\n\n"
        parts.append(f"{head}| case | what must hold | state |\n| --- | --- | --- |\n{table}")
    return "\n".join(parts)


def mqadmin() -> str:
    """Commands of mqadmin that are compared with Apache, and those that are not."""
    compared = ", ".join(f"`{name}`" for name in sorted(ROWS))
    rows = "".join(f"| `{name}` | {_cell(LEFT_OUT[name])} |\n" for name in sorted(LEFT_OUT))
    total = len(ROWS) + len(LEFT_OUT)
    return (
        f"{len(ROWS)} of its {total} commands, with their usual options and with wrong ones: {compared}.\n\n"
        f"The others:\n\n| command | why not |\n| --- | --- |\n{rows}"
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _state(lack: str | None) -> str:
    return "works" if lack is None else f"not yet: {lack}"


def requests() -> str:
    """One row per request code: who serves it, whether we do, and which foreign client sent it to us."""
    seen = json.loads((HERE / "seen.json").read_text())
    lines = ["| code | request | to | state | seen from |", "| --- | --- | --- | --- | --- |"]
    for code, declared in sorted(REQUESTS.items()):
        who = ", ".join(SEEN[client] for client in seen.get(str(code), ()))
        to = ", ".join(sorted(declared.SERVED_BY))
        lines.append(f"| {code} | {declared.NAME} | {to} | {_served(declared)} | {who} |")
    lines.append("")
    unused = ", ".join(f"{code} {name}" for code, name in sorted(UNUSED.items()))
    lines.append(f"Named by Apache and sent by no peer of release 5.4.0: {unused}.")
    return "\n".join(lines) + "\n"


def _served(declared: type[Request[object]]) -> str:
    states = []
    if "broker" in declared.SERVED_BY:
        served = declared in broker_handlers.by_request
        states.append("works" if served else f"no: {NOT_SERVED[declared.CODE]}")
    if "namesrv" in declared.SERVED_BY:
        states.append("works" if declared in _namesrv_handlers() else "no")
    if "controller" in declared.SERVED_BY:
        states.append("works" if declared in _controller_handlers() else "no")
    if not states:
        others = {
            "client": "a push to clients",
            "container": "no container",
        }
        states.append("; ".join(others[who] for who in sorted(declared.SERVED_BY)))
    return "; ".join(dict.fromkeys(states))


def _namesrv_handlers() -> dict[type[Request[object]], object]:
    from orbitmq.nameserver.handlers import handlers

    return handlers.by_request


def _controller_handlers() -> dict[type[Request[object]], object]:
    from orbitmq.controller.handlers import handlers

    return handlers.by_request


def options(table: OptionTable[Any]) -> str:
    """Every option of a server: those that change something first, the rest by what becomes of them."""
    parts = []
    for status, title in (
        (Status.HONOURED, "Honoured"),
        (Status.NO_EFFECT, "Accepted without effect"),
        (Status.REFUSED, "Refused"),
    ):
        rows = [row for row in table.rows if row.status is status]
        if not rows:
            continue
        parts.append(f"### {title}: {len(rows)}\n")
        if status is Status.HONOURED:
            parts.append(
                "| option | default | unit | at run time | meaning |\n| --- | --- | --- | --- | --- |"
            )
            parts += [_honoured(row) for row in rows]
        else:
            parts.append("| option | default | why |\n| --- | --- | --- |")
            parts += [f"| `{row.name}` | {_default(row)} | {_cell(row.reason)} |" for row in rows]
        parts.append("")
    return "\n".join(parts)


def _honoured(row: Option) -> str:
    doc = row.doc + (f" Refused values: {row.reason}." if row.only else "")
    changes = "yes" if row.mutable else ""
    return f"| `{row.name}` | {_default(row)} | {row.unit} | {changes} | {_cell(doc)} |"


def _default(row: Option) -> str:
    own = "" if row.default is None else f"`{to_text(row.default)}`" if to_text(row.default) else ""
    return f"{own} (Apache: {_cell(row.apache_default)})" if row.apache_default else own


PARTS: dict[Path, dict[str, Callable[[], str]]] = {
    HERE / "develop" / "api.md": {"names": api.contents},
    **{
        HERE / "develop" / "api" / f"{module}.md": {"names": partial(api.page, module)}
        for module in api.MODULES
    },
    HERE / "reference" / "compatibility.md": {"cases": cases, "mqadmin": mqadmin, "requests": requests},
    HERE / "reference" / "options.md": {
        "broker options": lambda: options(BROKER_TABLE),
        "name server options": lambda: options(NAMESRV_TABLE),
        "controller options": lambda: options(CONTROLLER_TABLE),
        "proxy options": lambda: options(PROXY_TABLE),
    },
    HERE / "data" / "spark-source.md": {"options": spark_source.options, "columns": spark_source.columns},
    HERE / "data" / "spark-stores.md": {"options": spark_stores.options, "columns": spark_stores.columns},
    HERE / "data" / "spark-sink.md": {"columns": spark_sink.columns, "options": spark_sink.options},
    HERE / "trust" / "reported.md": {"reports": reported},
    HERE / "trust" / "availability.md": {
        "trials": availability.conditions,
        "faults": availability.faults,
        "rates": availability.rates,
        "nines": availability.nines,
    },
    HERE / "reference" / "wire.md": {"requests": wire_table.markdown},
}


def written(path: Path) -> str:
    """The text of a document with its parts as the code has them now."""
    text = path.read_text()
    for name, make in PARTS[path].items():
        begin, end = f"<!-- {name}: written by make docs -->\n", f"<!-- end of {name} -->"
        before, _, rest = text.partition(begin)
        _, found, after = rest.partition(end)
        if not found:
            raise ValueError(f"{path.name} has no place for {name}")
        text = f"{before}{begin}\n{make()}\n{end}{after}"
    return text


def main() -> None:
    """Writes every document that changed, and says which."""
    for path in PARTS:
        text = written(path)
        if text != path.read_text():
            path.write_text(text)
            print(f"written: {path.name}")


if __name__ == "__main__":
    sys.exit(main())
