"""The text of every JSON body class, as Apache's 5.4.0 classes wrote it, decodes and encodes to itself."""

import json
import time
from pathlib import Path

import pytest

from orbitmq.protocol import codes
from orbitmq.protocol.schema.json_body import JsonBody
from tests.wire import all_bodies

TEXTS = json.loads((Path(__file__).parent / "vectors" / "json_bodies.json").read_text())
NEVER_SENT = {
    "BrokerSyncInfo",
    "ConsumeByWho",
    "OffsetMovedEvent",
    "RoleChangeNotifyEntry",
    "RollbackStats",
    "TopicQueueMappingOne",
}
"""Classes of steps, files and events inside Apache's processes; no request or reply carries one."""
BODIES = {name: text for name, text in TEXTS["bodies"].items() if name not in NEVER_SENT}
DEFAULTS = [name for name, entry in BODIES.items() if entry.get("defaults") is not None]


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def _class(name: str) -> type[JsonBody]:
    return all_bodies.BODIES[name.rpartition(".")[2]]


def _text(name: str, form: str) -> str:
    return BODIES[name][form].replace("NOW", "0")


@pytest.mark.parametrize("name", BODIES)
def test_every_field_set(name: str) -> None:
    text = _text(name, "filled")
    body = _class(name).from_json(text)
    assert body.to_json_text() == text
    assert body == _class(name).from_json(body.to_json())
    assert body == _class(name).from_json(body.to_pretty_json())
    assert body == _class(name).from_json(body.to_standard_json())


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults(name: str) -> None:
    text = _text(name, "defaults")
    assert _class(name).from_json(text).to_json_text() == text
    assert _class(name)().to_json_text() == text


@pytest.mark.parametrize("name", DEFAULTS)
def test_an_empty_object_is_the_defaults(name: str) -> None:
    assert _class(name).from_json("{}") == _class(name)()


@pytest.mark.parametrize("name", BODIES)
def test_null_everywhere_is_no_error(name: str) -> None:
    fields = _class(name).from_json(_text(name, "filled")).to_value()
    body = _class(name).from_json(json.dumps(dict.fromkeys(fields)))
    assert isinstance(body, _class(name))
    body.to_json()


IN_NO_BODY = {"MessageQueueRouteState", "TopicMessageType"}


@pytest.mark.parametrize("name", sorted(set(TEXTS["enums"]) - IN_NO_BODY))
def test_enums(name: str) -> None:
    enum = all_bodies.ENUMS.get(name) or getattr(codes, name)
    assert [member.name for member in enum] == TEXTS["enums"][name]
    assert [member.value for member in enum] == list(range(len(enum)))
