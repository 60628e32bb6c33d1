"""The page of limits names every constant that is one, and each with its true figure.

A row names its option, or in a comment the constant that it is about.
"""

import ast
import importlib
import re
from pathlib import Path

import orbitmq
from orbitmq.broker.options import BROKER_TABLE
from orbitmq.options import Status

SOURCE = Path(orbitmq.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "limits.md"
ROW = re.compile(r"\| [^|]+ \| ([0-9,]+)[^|]* \| (?:`([^`]+)`)? ?(?:<!-- (\S+:\w+) -->)? \| [^|]+ \|")
SERVER_ROOMS = (
    *("broker", "controller", "handling", "nameserver"),
    *("net", "options", "protocol", "server", "store"),
)
BEGINNINGS = ("MAX_", "MOST_")

NO_LIMITS = {
    "broker.pop.revive:MOST_PER_POINT": "messages of one pop, which are limited above",
    "protocol.records.message:MAX_PROPERTIES_BYTES": "a field of the format; senders have the limit above",
    "net.near_names:MOST_COMPARED": "of the names that a refusal suggests",
    "server.role.acting:MOST_REFUSALS": "tries, after which a message is passed over and kept",
    "store.queue.reader:MAX_READ_KEPT": "finished cold reads; the oldest are dropped",
    "protocol.epoch_replication:MAX_PIECE_BYTES": "follows from Apache's buffer, as without a controller",
    "server.role.controller_mode:MAX_REQUEST_MS": "a time-out",
    "broker.role.links:MAX_GROWTH_NOTES": "past lengths of the log, which date what is missing",
    "protocol.schema.declare:MAX_MESSAGE_BYTES": "as long as a frame may be",
    "broker.pop.acks_cy:MOST_FIXED_BYTES": "longer ones take the general path",
    "broker.auth.gate:MAX_DECISIONS": "size of a cache",
    "broker.auth.gate:MAX_REMEMBERED_CHARACTERS": "size of a cache",
    "broker.ack.handlers:MOST_BITS": "within one pop, whose messages are limited",
    "broker.admin.query_handlers:MAX_QUERIED": "bounded by maxMsgsNumBatch",
    "broker.admin.query_handlers:MAX_UNITS": "a page of mqadmin queryCq",
    "broker.pop.acks:MOST_ACK_TEMPLATES": "size of a cache",
    "broker.pop.templates:MOST_TEMPLATES": "size of a cache",
    "broker.pop.templates:MOST_NAME_CHARACTERS": "longer ones take the general path",
    "broker.pop.revive:MOST_POINTS": "kept in memory; the rest is read when it is due",
    "broker.pull.pulls_cy:MAX_PLANS": "size of a cache",
    "broker.metadata.registration:MAX_PERIOD_MS": "bound of an option",
    "broker.transaction.transactions:MOST_RECENT": "kept in memory; older ones are looked up",
    "server.controller.metrics:MAX_SAMPLES": "the rest is added up in one more",
    "server.controller.server:MAX_ELSEWHERE": "lines of the log that are not repeated",
    "server.controller.etcd:MAX_CHANGES": "of one transaction; more of them are several",
    "server.controller.etcd:MAX_BYTES": "of one transaction; more of them are several",
    "server.controller.zookeeper:MAX_CHANGES": "of one transaction; more of them are several",
    "server.controller.zookeeper:MAX_BYTES": "of one transaction; more of them are several",
    "protocol.replication:MAX_PHYSICAL_OFFSET": "longer than any log: it tells strangers on the HA port",
    "protocol.records.message:MAX_TOPIC_BYTES": "a field of the format; names are limited above",
    "protocol.names:MAX_OFFSET": "a name",
    "protocol.names:MAX_RECONSUME_TIMES": "a name",
    "server.turn.guard:MAX_LOGGED_CHARACTERS": "of a line in the log",
    "store.queue.extension:MAX_UNIT_BYTES": "a field of the format",
}
"""Constants named like limits that are none that a user could meet, with the reason."""


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


def rows() -> dict[str, int]:
    """Figures by what they are of: a constant, `module:NAME` below `orbitmq`, or an option of the broker."""
    found = {}
    for line in PAGE.read_text().splitlines():
        if line.startswith("| ") and not line.startswith(("| limit of", "| ---")):
            row = ROW.fullmatch(line)
            assert row, f"no figure, or neither option nor constant: {line}"
            figure, option, constant = row.groups()
            source = constant or option
            assert source, line
            value = int(figure.replace(",", ""))
            assert found.setdefault(source, value) == value, line
    return found


def test_every_limit_in_the_code_is_on_the_page() -> None:
    listed = set(rows())
    assert constants() - listed - set(NO_LIMITS) == set(), "on the page, or in NO_LIMITS with the reason"
    assert set(NO_LIMITS) - constants() == set(), "no such constants any more"


def test_every_figure_is_that_of_the_code() -> None:
    for source, figure in rows().items():
        module, _, name = source.partition(":")
        if name:
            assert getattr(importlib.import_module(f"orbitmq.{module}"), name) == figure, source
        else:
            row = BROKER_TABLE.find(source)
            assert row is not None, source
            assert (row.status, row.default) == (Status.HONOURED, figure), source
