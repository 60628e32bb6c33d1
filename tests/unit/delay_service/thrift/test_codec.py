"""Frames of peers, hostile ones among them."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from thriftpy2.protocol.compact import TCompactProtocol
from thriftpy2.transport.memory import TMemoryBuffer

from orbitmq.delay_service.thrift.bounds import MalformedCall
from orbitmq.delay_service.thrift.codec import SERVICE, Call, interface, read_call, result_frame

HEAD = b"\x82\x21\x01"
DELAY = interface.DelayMessage(
    topic="orders", body=b"\x00\xff", tags="a||b", action=1, timestamp=1_800_000_000, dmsgtype=2, interval=0,
    expire=0, times=0, uuid="u", version="java", properties={"p": "ü"},
)  # fmt: skip
PLAIN = interface.Message(topic="t", key="k", value="v", hashId=-5, tags="x", properties={"a": "b"})


def frame(method, **arguments):
    buffer = TMemoryBuffer()
    protocol = TCompactProtocol(buffer)
    protocol.write_message_begin(method, 1, 7)
    protocol.write_struct(getattr(SERVICE, f"{method}_args")(**arguments))
    return buffer.getvalue()


FRAMES = [
    frame("sendDelaySync", message=DELAY, timeout=100),
    frame("sendSync", message=PLAIN, timeout=100),
    frame("sendBatchSync", messages=[PLAIN] * 20),
]


def method_head(name=b"sendBatchSync"):
    return HEAD + bytes([len(name)]) + name


def test_calls_are_read_as_they_were_written():
    delay, plain, batch = map(read_call, FRAMES)
    assert (delay.method, delay.number, delay.arguments.message, delay.arguments.timeout) == (
        "sendDelaySync", 7, DELAY, 100,
    )  # fmt: skip
    assert plain.arguments.message == PLAIN
    assert plain.arguments.message.partitionId == -1
    assert batch.arguments.messages == [PLAIN] * 20


def test_fields_that_the_interface_lacks_are_passed_over():
    # A number, a text, a struct and a truth value, with the field numbers 100 to 103.
    more = b"\x06\xc8\x01\x02" + b"\x08\xca\x01\x02hi" + b"\x0c\xcc\x01\x00" + b"\x01\xce\x01"
    found = read_call(method_head(b"sendSync") + b"\x1c\x18\x01t" + more + b"\x00\x00")
    assert found.arguments.message == interface.Message(topic="t")


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(b"\x19\xf0\xff\xff\xff\x7f\x00", id="many elements without a byte each"),
        pytest.param(b"\x19\xfc\xff\xff\xff\xff\x0f\x00", id="more structs than bytes"),
        pytest.param(b"\x19\x28\x03abc\x00\x00", id="texts where structs have to be"),
        pytest.param(b"\x18\xff\xff\xff\xff\x0f\x00", id="a text longer than the frame"),
        pytest.param(b"\x1b\xff\xff\xff\x07\x88\x00", id="more pairs than bytes"),
        pytest.param(b"\x1b\x01\x08\x00\x00\x00", id="a map whose keys are no texts"),
        pytest.param(b"\x16" + b"\xff" * 4000 + b"\x01\x00", id="a number without an end"),
        pytest.param(b"\x1c" * 5000, id="structs in structs"),
        pytest.param(b"\x19\x1c" * 5000, id="lists in lists"),
        pytest.param(b"\x1a\x1c\x00\x00", id="a set"),
        pytest.param(b"\x1f\x00", id="an unknown type"),
        pytest.param(b"\x00\x00", id="more behind the end"),
        pytest.param(b"", id="nothing"),
        pytest.param(b"\x19\x1c\x18\x01\xff\x00\x00", id="a text that is not UTF-8"),
    ],
)
def test_hostile_arguments_are_answered_and_not_read(arguments):
    found = read_call(method_head() + arguments)
    assert found.problem
    assert found.arguments is None


@pytest.mark.parametrize("data", [b"", b"\x80\x01", b"\x82\x41\x01\x00", HEAD + b"\x7f", HEAD, b"GET /"])
def test_bytes_that_are_no_call(data):
    with pytest.raises(MalformedCall):
        read_call(data)


@given(st.sampled_from(FRAMES), st.lists(st.tuples(st.integers(0, 400), st.binary(max_size=6)), max_size=4))
@example(FRAMES[2], [(18, b"\xf0\xff")])
@settings(max_examples=80, deadline=None)
def test_changed_frames_are_read_or_refused(data, changes):
    changed = bytearray(data)
    for place, new in changes:
        place %= len(changed) + 1
        changed[place : place + len(new)] = new
    try:
        found = read_call(bytes(changed))
    except MalformedCall:
        return
    assert isinstance(found, Call)
    if found.arguments is not None:
        assert len(repr(found.arguments)) < 40 * len(changed) + 4000


@given(st.binary(max_size=200))
@settings(max_examples=80, deadline=None)
def test_arguments_of_any_bytes_are_read_or_refused(data):
    assert isinstance(read_call(method_head(b"sendDelaySync") + data), Call)


def test_a_result_is_read_by_the_same_library():
    data = result_frame(Call("sendDelaySync", 9), 33, "timestamp", "id")
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    protocol = TCompactProtocol(TMemoryBuffer(data[4:]))
    assert protocol.read_message_begin() == ("sendDelaySync", 2, 9)
    found = SERVICE.sendDelaySync_result()
    found.read(protocol)
    assert found.success == interface.DelayResult(33, "timestamp", "id")
