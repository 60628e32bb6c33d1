"""Every property of Apache's broker and name server is in the tables, once, as Apache has it."""

import csv
from collections import Counter
from pathlib import Path

import pytest

from orbitmq.broker.options import BROKER_TABLE
from orbitmq.controller.options import CONTROLLER_TABLE
from orbitmq.nameserver.options import NAMESRV_TABLE
from orbitmq.options import Layer, OptionTable, RefusedValue, Settings, Status
from orbitmq.options.option import to_text

DATA = Path(__file__).parent / "data"
TABLES = [
    (BROKER_TABLE, "broker_properties.csv", 520),
    (NAMESRV_TABLE, "namesrv_properties.csv", 40),
    (CONTROLLER_TABLE, "controller_properties.csv", 52),
]
NAMES = ["broker", "namesrv", "controller"]
Table = OptionTable[Settings]


def properties(name: str) -> list[dict[str, str]]:
    with (DATA / name).open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(("table", "file", "count"), TABLES, ids=NAMES)
def test_every_property_of_apache_is_there_once(table: Table, file: str, count: int) -> None:
    apache = [(row["class"], row["field"]) for row in properties(file)]
    ours = [(owner, row.name) for row in table.rows for owner in row.owner.split()]
    assert len(apache) == count
    assert Counter(ours) == Counter(apache)


@pytest.mark.parametrize(("table", "file", "count"), TABLES, ids=NAMES)
def test_types_and_defaults_are_apaches_or_say_so(table: Table, file: str, count: int) -> None:
    wrong = []
    for apache in properties(file):
        row = table.find(apache["field"])
        assert row is not None
        if row.kind != apache["type"]:
            wrong.append((row.name, row.kind, apache["type"]))
        default = "" if apache["default"] == "null" else apache["default"]
        if row.apache_default is None and row.name != "listenPort" and to_text(row.default) != default:
            wrong.append((row.name, to_text(row.default), default))
    assert wrong == []


@pytest.mark.parametrize("table", [BROKER_TABLE, NAMESRV_TABLE, CONTROLLER_TABLE], ids=NAMES)
def test_rows_explain_themselves(table: Table) -> None:
    for row in table.rows:
        if row.status is Status.HONOURED:
            assert row.doc.endswith("."), row.name
        else:
            assert row.reason, row.name
        assert bool(row.only) <= bool(row.reason), row.name
        assert not row.choices or row.default in row.choices, row.name
        if row.status is Status.REFUSED and row.name != "storePathCommitLog":
            assert row.default in row.only, row.name


@pytest.mark.parametrize("table", [BROKER_TABLE, NAMESRV_TABLE, CONTROLLER_TABLE], ids=NAMES)
def test_every_default_is_a_valid_value(table: Table) -> None:
    for row in table.rows:
        assert row.parse(row.default, "default") == row.default


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("storeType", "defaultRocksDB"),
        ("enableDLegerCommitLog", "true"),
        ("brokerRole", "SLAVE"),
        ("authenticationProvider", "com.example.Provider"),
        ("authorizationMetadataProvider", "com.example.Provider"),
        ("authenticationStrategy", "com.example.Strategy"),
        ("migrateAuthFromV1Enabled", "true"),
        ("aclEnable", "true"),
        ("duplicationEnable", "true"),
        ("readOnlyCommitLogStorePaths", "/other"),
        ("messageStorePlugIn", "com.example.Plug"),
        ("configManagerVersion", "v2"),
        ("allAckInSyncStateSet", "true"),
        ("lockInStrictMode", "true"),
        ("useStaticSubscription", "true"),
        ("popConsumerKVServiceEnable", "true"),
    ],
)
def test_what_would_change_the_meaning_is_refused(name: str, value: str) -> None:
    with pytest.raises(RefusedValue, match=name):
        BROKER_TABLE.load([Layer("test", {name: value})])
    with pytest.raises(RefusedValue, match=name):
        BROKER_TABLE.apply_update(BROKER_TABLE.load([]), {name: value})


def test_nothing_that_names_a_place_can_be_changed_over_the_network() -> None:
    for table in (BROKER_TABLE, NAMESRV_TABLE, CONTROLLER_TABLE):
        for row in table.rows:
            if any(part in row.name for part in ("Path", "Home", "PlugIn", "Addr", "Provider", "Credential")):
                assert not row.mutable, row.name
