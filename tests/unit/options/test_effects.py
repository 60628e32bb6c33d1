"""Every honoured option has a test that shows its effect: `effects.txt` names it, and it has to exist."""

import re
from pathlib import Path

import pytest

import orbitmq
from orbitmq.broker.options import BROKER_TABLE
from orbitmq.delay_service.options import DELAY_TABLE
from orbitmq.nameserver.options import NAMESRV_TABLE
from orbitmq.options import OptionTable, Status
from orbitmq.proxy.options import PROXY_TABLE

UNIT = Path(__file__).parent.parent


def effects(listed: str = "effects.txt") -> dict[str, str]:
    """Option -> `file::test`. Tests are indented below their file, options below their test."""
    found: dict[str, str] = {}
    file = test = ""
    for line in Path(__file__).with_name(listed).read_text().splitlines():
        text = line.strip()
        depth = (len(line) - len(line.lstrip())) // 2
        if not text or text.startswith("#"):
            continue
        if depth == 0:
            file = text
        elif depth == 1:
            test = text
        else:
            assert text not in found, f"{text} is there twice"
            found[text] = f"{file}::{test}"
    return found


EFFECTS = effects()
DELAY_EFFECTS = effects("delay_effects.txt")
PROXY_EFFECTS = effects("proxy_effects.txt")


def test_every_honoured_option_names_its_test() -> None:
    honoured = {
        row.name
        for table in (BROKER_TABLE, NAMESRV_TABLE)
        for row in table.rows
        if row.status is Status.HONOURED
    }
    assert honoured - set(EFFECTS) == set(), "honoured, but no test shows it"
    assert set(EFFECTS) - honoured == set(), "a test for what is not honoured"


@pytest.mark.parametrize(
    ("table", "listed"), [(DELAY_TABLE, DELAY_EFFECTS), (PROXY_TABLE, PROXY_EFFECTS)], ids=["delay", "proxy"]
)
def test_every_option_of_other_servers_names_its_test(table: OptionTable, listed: dict[str, str]) -> None:
    honoured = {row.name for row in table.rows if row.status is Status.HONOURED}
    assert set(listed) == honoured


@pytest.mark.parametrize(
    ("folder", "test"),
    [*((UNIT, one) for one in sorted(set(EFFECTS.values()))),
     *((UNIT.parent, one) for one in sorted({*DELAY_EFFECTS.values(), *PROXY_EFFECTS.values()}))],
)  # fmt: skip
def test_the_named_tests_exist(folder: Path, test: str) -> None:
    file, _, name = test.partition("::")
    assert re.search(rf"^(async )?def {name}\(", (folder / file).read_text(), re.MULTILINE)


def test_every_honoured_option_is_read_by_a_server() -> None:
    source = Path(orbitmq.__file__).parent
    text = "\n".join(
        path.read_text()
        for room in ("broker", "handling", "nameserver", "net", "server", "store")
        for path in (source / room).rglob("*.py")
        if path.name not in ("options.py", "option_rows.py")
    )
    unread = [
        row.name
        for table in (BROKER_TABLE, NAMESRV_TABLE)
        for row in table.rows
        if row.status is Status.HONOURED and not re.search(rf"\.{row.key}\b", text)
    ]
    assert unread == []
