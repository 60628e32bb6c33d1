"""The page of limits names every constant that is one, and each with its true figure."""

import ast
from pathlib import Path

import orbitmq
from docs.limits import LIMITS, NO_LIMITS
from orbitmq.broker.options import BROKER_TABLE
from orbitmq.options import Status

SOURCE = Path(orbitmq.__file__).parent
SERVER_ROOMS = (
    *("broker", "controller", "handling", "nameserver"),
    *("net", "options", "protocol", "server", "store"),
)
BEGINNINGS = ("MAX_", "MOST_")


def constants() -> set[str]:
    """`module:NAME` of every constant of the server's rooms that is named like a limit."""
    found = set()
    for room in SERVER_ROOMS:
        for path in sorted((SOURCE / room).rglob("*.py")):
            module = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
            for node in ast.parse(path.read_text()).body:
                targets = node.targets if isinstance(node, ast.Assign) else []
                if isinstance(node, ast.AnnAssign):
                    targets = [node.target]
                for target in targets:
                    if isinstance(target, ast.Name) and (target.id.startswith(BEGINNINGS)):
                        found.add(f"{module}:{target.id}")
    return found


def test_every_limit_in_the_code_is_on_the_page() -> None:
    listed = {limit.source for limits in LIMITS.values() for limit in limits}
    assert constants() - listed - set(NO_LIMITS) == set(), "on the page, or in NO_LIMITS with the reason"
    assert set(NO_LIMITS) - constants() == set(), "no such constants any more"


def test_every_figure_is_one_of_the_code() -> None:
    for limits in LIMITS.values():
        for limit in limits:
            assert limit.value() > 0, limit.source
            if limit.is_option:
                row = BROKER_TABLE.find(limit.source)
                assert row is not None
                assert row.status is Status.HONOURED, limit.source
