import pytest

from orbitmq.broker.metadata.attributes import GROUP_ATTRIBUTES, TOPIC_ATTRIBUTES, alter, parse_attributes
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused


def test_header_text_is_a_list_of_signed_attributes() -> None:
    assert parse_attributes(None) == {}
    assert parse_attributes("") == {}
    assert parse_attributes("+message.type=FIFO,-reserve.time") == {
        "+message.type": "FIFO",
        "-reserve.time": "",
    }


@pytest.mark.parametrize("text", ["+k", "+k=", "=v", "+k=v,+k=w", "k"])
def test_header_text_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        parse_attributes(text)


def test_an_update_keeps_what_it_does_not_name() -> None:
    current = {"message.type": "NORMAL", "reserve.time": "5"}
    assert alter(TOPIC_ATTRIBUTES, current, {"+message.type": "FIFO"}) == {
        "message.type": "FIFO",
        "reserve.time": "5",
    }
    assert alter(TOPIC_ATTRIBUTES, current, {"-reserve.time": ""}) == {"message.type": "NORMAL"}
    assert current == {"message.type": "NORMAL", "reserve.time": "5"}


@pytest.mark.parametrize(
    ("current", "signed"),
    [
        (None, {"message.type": "FIFO"}),
        (None, {"-message.type": ""}),
        ({}, {"-message.type": ""}),
        (None, {"+message.type": "QUICK"}),
        (None, {"+no.such.key": "1"}),
        ({}, {"+queue.type": "BatchCQ"}),
        ({"queue.type": "SimpleCQ"}, {"+queue.type": "BatchCQ"}),
        ({"queue.type": "SimpleCQ"}, {"-queue.type": ""}),
        (None, {"+reserve.time": "-2"}),
        (None, {"+reserve.time": str(2**63)}),
        (None, {"+reserve.time": "soon"}),
        ({"message.type": "FIFO"}, {"+message.type": "NORMAL", "-message.type": ""}),
        (None, {"+": "x"}),
    ],
)
def test_wrong_updates_are_refused(current: dict[str, str] | None, signed: dict[str, str]) -> None:
    with pytest.raises(Refused) as refused:
        alter(TOPIC_ATTRIBUTES, current, signed)
    assert refused.value.code == ResponseCode.SYSTEM_ERROR


def test_ranges_include_their_ends() -> None:
    assert alter(TOPIC_ATTRIBUTES, None, {"+reserve.time": "-1"}) == {"reserve.time": "-1"}
    assert alter(GROUP_ATTRIBUTES, None, {"+priority.factor": "100"}) == {"priority.factor": "100"}
    with pytest.raises(Refused):
        alter(GROUP_ATTRIBUTES, None, {"+priority.factor": "101"})
