import pytest

from orbitmq.broker.metadata import names
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused


@pytest.mark.parametrize("topic", ["T", "a-b_c|d", "%RETRY%g", "x" * 127, "%RETRY%" + "g" * 248])
def test_names_that_topics_may_have(topic: str) -> None:
    names.check_topic_name(topic)


@pytest.mark.parametrize("topic", [None, "", " ", "a b", "ümlaut", "a.b", "x" * 128, "%DLQ%" + "g" * 251])
def test_names_that_topics_may_not_have(topic: str | None) -> None:
    with pytest.raises(Refused) as refused:
        names.check_topic_name(topic)
    assert refused.value.code == ResponseCode.INVALID_PARAMETER


def test_the_remark_of_a_wrong_character() -> None:
    with pytest.raises(Refused) as refused:
        names.check_topic_name("a b")
    assert refused.value.remark == (
        "The specified topic: a b, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
    )


def test_group_names_are_shorter() -> None:
    names.check_group_name("g" * 120)
    for group in (None, "", "g" * 121, "g g"):
        with pytest.raises(Refused):
            names.check_group_name(group)
    assert not names.is_group_name("g" * 121)


def test_clients_may_not_send_to_topics_of_the_system() -> None:
    with pytest.raises(Refused) as refused:
        names.refuse_send_to_system_topic("SCHEDULE_TOPIC_XXXX")
    assert refused.value.code == ResponseCode.NO_PERMISSION
    assert refused.value.remark == "Sending message to topic[SCHEDULE_TOPIC_XXXX] is forbidden."
    names.refuse_send_to_system_topic("TBW102")
