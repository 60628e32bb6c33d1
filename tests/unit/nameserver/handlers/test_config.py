"""KV configuration and options: asked for, changed, saved."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from orbitmq.nameserver.options import NAMESRV_TABLE
from orbitmq.options.properties import parse_properties
from orbitmq.protocol.errors import MalformedJson
from orbitmq.protocol.requests.every import REQUESTS
from orbitmq.protocol.requests.route import (
    DeleteKvConfig,
    GetKvConfig,
    GetKvlistByNamespace,
    GetNamesrvConfig,
    PutKvConfig,
    UpdateNamesrvConfig,
)
from tests.kit.nameserver_story import Story, refused

APACHE = Path(__file__).parents[3] / "wire" / "vectors" / "namesrv_config.csv"


def test_every_request_to_a_name_server_has_a_handler() -> None:
    wanted = {code for code, request in REQUESTS.items() if "namesrv" in request.SERVED_BY}
    assert set(Story().handlers) == wanted


def test_every_property_of_apache_has_a_row() -> None:
    with APACHE.open() as file:
        wanted = [row["field"] for row in csv.DictReader(file)]
    assert [name for name in wanted if NAMESRV_TABLE.find(name) is None] == []


def test_values_are_kept_by_namespace() -> None:
    story = Story()
    story.ask(PutKvConfig("ns", "k", "v"))
    story.ask(PutKvConfig("ns", "k2", "v2"))
    assert story.ask(GetKvConfig("ns", "k")).value == "v"
    assert story.ask(GetKvlistByNamespace("ns")).body.table == {"k": "v", "k2": "v2"}
    story.ask(DeleteKvConfig("ns", "k"))
    assert refused(lambda: story.ask(GetKvConfig("ns", "k"))) == (
        22,
        "No config item, Namespace: ns Key: k",
    )
    assert refused(lambda: story.ask(GetKvlistByNamespace("none"))) == (
        22,
        "No config item, Namespace: none",
    )
    story.ask(DeleteKvConfig("none", "k"))


def test_a_change_is_answered_when_it_is_saved() -> None:
    story = Story()
    story.ask(PutKvConfig("ns", "k", "v"))
    assert story.saved == {"kvConfig"}
    del story.saved
    story.ask(PutKvConfig("ns", "k", "v"))
    assert not hasattr(story, "saved"), "nothing changed, nothing to wait for"
    text = story.server.files["kvConfig"]()
    assert text == '{"configTable":{"ns":{"k":"v"}}}'
    other = Story()
    other.server.kv.load_text(text)
    assert other.ask(GetKvConfig("ns", "k")).value == "v"
    assert not other.server.dirty_tables.any_soon


@pytest.mark.parametrize("text", ["", "{", '{"configTable":[]}', '{"configTable":{"ns":5}}'])
def test_a_file_that_cannot_be_read(text: str) -> None:
    with pytest.raises(MalformedJson):
        Story().server.kv.load_text(text)


def test_options_are_listed() -> None:
    body = Story(support_acting_master=True).ask(GetNamesrvConfig()).body
    lines = dict(line.split("=", 1) for line in body.decode().splitlines())
    assert lines["supportActingMaster"] == "true"
    assert lines["listenPort"] == "9876"
    assert list(lines) == sorted(lines)


def test_options_are_changed() -> None:
    story = Story()
    story.ask(UpdateNamesrvConfig(b"supportActingMaster=true\n"))
    assert story.settings.support_acting_master is True
    assert story.saved == {"namesrv.properties"}
    saved = parse_properties(story.server.files["namesrv.properties"]().encode(), "saved")
    assert saved["supportActingMaster"] == "true"
    story.ask(UpdateNamesrvConfig())


@pytest.mark.parametrize(
    "name", ["configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome", "listenPort"]
)
def test_some_options_are_never_changed(name: str) -> None:
    story = Story()
    code, remark = refused(
        lambda: story.ask(UpdateNamesrvConfig(f"supportActingMaster=true\n{name}=1234\n".encode()))
    )
    assert code == 16
    if name != "listenPort":
        assert remark == "Can not update config in black list."
    assert not story.settings.support_acting_master, "all or nothing"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"supportActingMaster=perhaps", 29),
        (b"waitSecondsForService=-1", 29),
        (b"a=\\u12", 29),
        (b"x" * 70_000, 29),
    ],
)
def test_wrong_updates(body: bytes, code: int) -> None:
    assert refused(lambda: Story().ask(UpdateNamesrvConfig(body)))[0] == code
