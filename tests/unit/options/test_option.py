import pytest

from orbitmq.options import InvalidValue, Option, RefusedValue
from orbitmq.options.option import snake_case, to_text


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("brokerIP1", "broker_ip1"),
        ("enableDLegerCommitLog", "enable_d_leger_commit_log"),
        ("useABSLock", "use_abs_lock"),
        ("checkCRCOnRecover", "check_crc_on_recover"),
        ("scheduleAsyncDeliverMaxResendNum2Blocked", "schedule_async_deliver_max_resend_num2_blocked"),
        ("listenPort", "listen_port"),
    ],
)
def test_keys_are_the_names_in_snake_case(name: str, key: str) -> None:
    option = Option(name, "String", None)
    assert snake_case(name) == option.key == key
    assert option.environment_variable == f"ORBITMQ_{key.upper()}"


@pytest.mark.parametrize(
    ("kind", "raw", "value"),
    [
        ("int", " 42 ", 42),
        ("int", 42, 42),
        ("int", "-2147483648", -(2**31)),
        ("long", "9223372036854775807", 2**63 - 1),
        ("boolean", "TRUE", True),
        ("boolean", False, False),
        ("double", "0.8", 0.8),
        ("double", 1, 1.0),
        ("String", "  text ", "text"),
        ("String", 5, "5"),
        ("String", True, "true"),
    ],
)
def test_values_are_typed(kind: str, raw: object, value: object) -> None:
    parsed = Option("x", kind, None).parse(raw, "test")
    assert (parsed, type(parsed)) == (value, type(value))


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        ("int", "2147483648"),
        ("int", "1.0"),
        ("int", "ten"),
        ("int", ""),
        ("int", "1_000"),
        ("int", True),
        ("int", "\u0661"),
        ("long", "9" * 5000),
        ("boolean", "yes"),
        ("boolean", 1),
        ("double", "nan"),
        ("double", "inf"),
        ("double", "x"),
    ],
)
def test_other_values_say_name_value_and_what_was_expected(kind: str, raw: object) -> None:
    option = Option("theName", kind, None)
    with pytest.raises(InvalidValue) as caught:
        option.parse(raw, "the file")
    text = str(caught.value)
    assert text.startswith("the file: theName=")
    assert text.endswith(option.expected)


def test_ranges() -> None:
    option = Option("size", "int", 5, unit="bytes", minimum=1, maximum=9)
    assert option.parse("9", "test") == 9
    with pytest.raises(InvalidValue, match=r"a whole number \(bytes\) from 1 to 9"):
        option.parse("10", "test")
    with pytest.raises(InvalidValue, match="0 or more"):
        Option("n", "long", 0, minimum=0).parse("-1", "test")


def test_enumerations_in_any_case() -> None:
    option = Option("how", "How", "ONE", choices=("ONE", "TWO"))
    assert option.parse("two", "test") == "TWO"
    with pytest.raises(InvalidValue, match="expected ONE or TWO"):
        option.parse("three", "test")


def test_refused_values_give_the_reason() -> None:
    option = Option("how", "How", "ONE", choices=("ONE", "TWO"), only=("ONE",), reason="there is no two")
    assert option.parse("ONE", "test") == "ONE"
    with pytest.raises(RefusedValue, match="test: how=TWO is refused: there is no two"):
        option.parse("TWO", "test")


def test_text_is_javas() -> None:
    assert [to_text(value) for value in (True, False, 1, 0.8, "x", None)] == [
        "true",
        "false",
        "1",
        "0.8",
        "x",
        "",
    ]
