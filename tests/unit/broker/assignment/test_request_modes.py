from __future__ import annotations

import pytest

from orbitmq.broker.assignment.request_modes import RequestModes
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.protocol.bodies.pop import MessageRequestMode, SetMessageRequestModeRequestBody
from orbitmq.protocol.errors import MalformedJson

POP = SetMessageRequestModeRequestBody("T", "G", MessageRequestMode.POP, 2)


@pytest.fixture
def dirty() -> DirtyTables:
    return DirtyTables()


def test_the_mode_that_was_set_is_that_of_its_group_and_topic_alone(dirty: DirtyTables) -> None:
    modes = RequestModes(dirty, "PULL", 0)
    modes.set(POP)
    assert modes.get("T", "G") is POP
    assert modes.get("T", "H").mode is MessageRequestMode.PULL
    assert modes.get("U", "G").mode is MessageRequestMode.PULL
    assert dirty.is_due(RequestModes.NAME)


def test_without_a_mode_the_default_holds_but_retry_topics_are_pulled(dirty: DirtyTables) -> None:
    modes = RequestModes(dirty, "POP", 3)
    default = modes.get("T", "G")
    assert (default.mode, default.pop_share_queue_num) == (MessageRequestMode.POP, 3)
    assert modes.get("%RETRY%G", "G").mode is MessageRequestMode.PULL
    assert not dirty.any_soon


def test_its_file_brings_the_modes_back_and_another_table_is_refused(dirty: DirtyTables) -> None:
    modes = RequestModes(dirty, "PULL", 0)
    modes.set(POP)
    loaded = RequestModes(dirty, "PULL", 0)
    loaded.load_text(modes.snapshot()())
    assert loaded.get("T", "G") == POP
    with pytest.raises(MalformedJson):
        loaded.load_text('{"offsetTable":{}}')
    assert loaded.get("T", "G") == POP
