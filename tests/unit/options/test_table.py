from dataclasses import dataclass

import pytest

from orbitmq.broker.options import BROKER_TABLE
from orbitmq.nameserver.options import NAMESRV_TABLE
from orbitmq.options import (
    InvalidValue,
    Layer,
    Long,
    NotAtRunTime,
    Option,
    OptionTable,
    RefusedValue,
    Settings,
    Status,
    UnknownOption,
    option,
)
from orbitmq.options.apache import rows_of
from orbitmq.options.table import HIDDEN


@dataclass(kw_only=True)
class Sample(Settings):
    pull_size: int = option(32, "Messages of a pull.", mutable=True, minimum=1)
    data_path: str = option("/data", "The data folder.")
    shown_only: int = option(7, "", status=Status.NO_EFFECT, reason="shown")


TABLE = OptionTable(
    Sample,
    rows_of(
        [
            {
                "owner": "Owner",
                "without_effect": "nothing to size",
                "rows": [("poolSize", "int", 16), ("poolName", "String", None)],
            },
            {
                "owner": "Owner",
                "refused": "not that kind",
                "rows": [("kind", "String", "plain"), ("plugIn", "String", None)],
            },
        ]
    ),
)


def load(*layers: dict[str, object], lenient: bool = False) -> Sample:
    return TABLE.load([Layer(f"layer {n}", values, lenient) for n, values in enumerate(layers)])


def test_secrets_are_told_to_be_there_and_nothing_more() -> None:
    for table in (BROKER_TABLE, NAMESRV_TABLE):
        settings = table.load([Layer("the test", {"tls.server.keyPassword": "s3cret"})])
        assert table.as_properties(settings)["tls.server.keyPassword"] == HIDDEN
        assert "s3cret" not in str(table.as_properties(settings))
        assert "tls.client.keyPassword" not in table.as_properties(settings)
        assert "tls.server.keyPassword" not in table.as_properties(settings, hidden=None)


def test_defaults_and_later_layers_win_by_either_name() -> None:
    assert load().pull_size == 32
    settings = load({"pullSize": "1", "dataPath": "/a"}, {"pull_size": 2})
    assert (settings.pull_size, settings.data_path) == (2, "/a")
    assert settings.sources == {"pullSize": "layer 1", "dataPath": "layer 0"}


def test_an_unknown_name_ends_it_with_the_nearest_one() -> None:
    with pytest.raises(
        UnknownOption, match=r"layer 0: unknown option pulSize; did you mean pullSize\?"
    ) as caught:
        load({"pulSize": "1"})
    assert caught.value.nearest == "pullSize"
    with pytest.raises(UnknownOption, match=r"unknown option zzzzzzz$"):
        load({"zzzzzzz": "1"})
    assert load({"zzzzzzz": "1"}, lenient=True).pull_size == 32


def test_wrong_and_refused_values() -> None:
    with pytest.raises(InvalidValue, match="layer 0: pullSize=0 is not valid"):
        load({"pullSize": "0"})
    with pytest.raises(RefusedValue, match="kind=rocks is refused: not that kind"):
        load({"kind": "rocks"})
    with pytest.raises(RefusedValue, match="plugIn"):
        load({"plugIn": "a.b.C"})
    assert load({"kind": "plain", "plugIn": ""}).unused == {"kind": "plain", "plugIn": ""}


def test_what_was_set_without_effect_is_told() -> None:
    settings = load({"poolSize": "4", "poolName": "", "shownOnly": "9", "pullSize": "1"})
    assert [row.name for row in TABLE.set_without_effect(settings)] == ["shownOnly", "poolSize"]
    assert TABLE.set_without_effect(load({"poolSize": "16"})) == []


def test_all_properties_as_java_lists_them() -> None:
    assert TABLE.as_properties(load({"poolSize": "4"})) == {
        "dataPath": "/data",
        "kind": "plain",
        "poolSize": "4",
        "pullSize": "32",
        "shownOnly": "7",
    }


def test_updates_at_run_time() -> None:
    settings = load()
    assert TABLE.apply_update(settings, {"pullSize": "64", "poolSize": "4"}) == [
        "pullSize",
        "poolSize",
    ]
    assert settings.pull_size == 64
    assert TABLE.apply_update(settings, {"pullSize": "64"}) == []
    assert TABLE.apply_update(settings, {"dataPath": "/data"}) == [], "the same value is no change"


@pytest.mark.parametrize(
    ("properties", "error"),
    [
        ({"pullSize": "64", "dataPath": "/etc"}, NotAtRunTime),
        ({"pullSize": "64", "black": "1"}, NotAtRunTime),
        ({"pullSize": "64", "poolSize": "many"}, InvalidValue),
        ({"pullSize": "64", "kind": "rocks"}, RefusedValue),
        ({"pullSize": "64", "strange": "x"}, UnknownOption),
    ],
)
def test_an_update_is_all_or_nothing(properties: dict[str, str], error: type[Exception]) -> None:
    settings = load()
    with pytest.raises(error):
        TABLE.apply_update(settings, properties, "black;other")
    assert settings.pull_size == 32


def test_a_name_has_one_row() -> None:
    with pytest.raises(TypeError, match="two rows for pullSize"):
        OptionTable(Sample, [Option("pullSize", "int", 1)])


def test_name_type_and_owner_follow_from_the_field_and_its_class() -> None:
    @dataclass(kw_only=True)
    class Base(Settings, owner="BrokerConfig"):
        pull_size: int = option(1, "")
        flush_interval: Long = option(1, "")
        trace_on: bool = option(True, "")

    @dataclass(kw_only=True)
    class Derived(Base):
        data_path: str | None = option(None, "")
        check_crc: bool = option(True, "", name="checkCRC", owner="MessageStoreConfig")
        role: str = option("MASTER", "", java_type="Role", choices=("MASTER", "SLAVE"))

    assert [(row.name, row.kind, row.owner) for row in OptionTable(Derived).rows] == [
        ("pullSize", "int", "BrokerConfig"),
        ("flushInterval", "long", "BrokerConfig"),
        ("traceOn", "boolean", "BrokerConfig"),
        ("dataPath", "String", ""),
        ("checkCRC", "boolean", "MessageStoreConfig"),
        ("role", "Role", ""),
    ]


def test_a_field_is_called_as_its_option() -> None:
    @dataclass(kw_only=True)
    class Wrong(Settings):
        pull: int = option(1, "", name="pullSize")

    with pytest.raises(TypeError, match="pull is not the option pullSize"):
        OptionTable(Wrong)
