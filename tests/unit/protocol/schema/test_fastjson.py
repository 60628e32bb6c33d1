import pytest

from orbitmq.protocol.errors import MalformedJson
from orbitmq.protocol.schema import fastjson
from orbitmq.protocol.schema.fastjson import (
    ObjectKey,
    double_text,
    parse,
    write,
    write_pretty,
    write_standard,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":1}', {"a": 1}),
        ("{0:1,-1:2}", {"0": 1, "-1": 2}),
        ('{ 0 : "x" , 12 : {3:4} }', {"0": "x", "12": {"3": 4}}),
        ("{'a':'b'}", {"a": "b"}),
        ('{"a":1,}', {"a": 1}),
        ("[1,2,]", [1, 2]),
        ('{{"topic":"T","queueId":1}:5}', {ObjectKey({"queueId": 1, "topic": "T"}): 5}),
        ('{{ "topic" : "T" } : {0:1}}', {ObjectKey({"topic": "T"}): {"0": 1}}),
        ('{{"a":"}"}:{"b":"{"}}', {ObjectKey({"a": "}"}): {"b": "{"}}),
        ('{{"a":1,}:{"b":[{"c":2}],"d":"x}"}}', {ObjectKey({"a": 1}): {"b": [{"c": 2}], "d": "x}"}}),
        ('{{"a":{0:1}}:{}}', {ObjectKey({"a": {"0": 1}}): {}}),
        ('{"a":"{0:1}",1:2}', {"a": "{0:1}", "1": 2}),
        ('{"a\\"{1:":2,3:4}', {'a"{1:': 2, "3": 4}),
        ("{'it\\'s {1:':\"\\u00e9\\ud83d\\ude00\\/\"}", {"it's {1:": "é😀/"}),
        ("{'x':\"\\ud83d\"}", {"x": "\ud83d"}),
        ("{'a':[true,false,null,-1.5e3,{}]}", {"a": [True, False, None, -1500.0, {}]}),
        ('{"a":1,"a":2}', {"a": 2}),
        ("{'a':1,'a':2}", {"a": 2}),
        ("{}", {}),
        (" [ ] ", []),
        ('"x"', "x"),
        ("'x'", "x"),
        ("5", 5),
    ],
)
def test_reading(text: str, value: object) -> None:
    assert parse(text) == value
    assert parse(text.encode("utf-8", "surrogatepass").decode("utf-8", "surrogatepass")) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "{",
        "}",
        "{a:1}",
        "{1.5:1}",
        "{true:1}",
        '{"a"}',
        '{"a":}',
        '{"a":1 "b":2}',
        "[1 2]",
        "{,}",
        "[,]",
        '{"a":1} x',
        "{'a':1}}",
        "/* c */{}",
        '{"a":1 // c\n}',
        "NaN",
        '{"a":Infinity}',
        "{'a':-Infinity}",
        '{"a":6e3330}',
        "{0:-1e999}",
        "['a',1e999]",
        '["' + "x" * 200_000 + '",1e999]',
        "'x",
        '"x',
        "'\\q'",
        "'\\u12g4'",
        "'\\",
        "'a\nb'",
        "{{{{",
        "9" * 5000,
        "{'a':" + "9" * 5000 + "}",
        "truex",
        "-",
    ],
)
def test_refusing(text: str) -> None:
    with pytest.raises(MalformedJson):
        parse(text)


def test_not_utf8() -> None:
    with pytest.raises(MalformedJson, match="byte 2"):
        parse(b'{"\xff":1}')


@pytest.mark.parametrize("piece", ["[", '{"a":', "{0:", "{{"])
@pytest.mark.parametrize("count", [200, 100_000])
def test_depth_is_capped(piece: str, count: int) -> None:
    with pytest.raises(MalformedJson):
        parse(piece * count)
    lenient = "'" + "x" + "'"
    with pytest.raises(MalformedJson):
        parse("[" * count + lenient + "]" * count)


def test_length_is_capped() -> None:
    with pytest.raises(MalformedJson, match="longer than 10"):
        parse('{"a":12345}', max_bytes=10)


@pytest.mark.parametrize(
    "text", ['\\"' * 200_000, '"\\\n' * 200_000, "{" + " " * 400_000, '"' + "\\" * 400_001]
)
def test_long_nonsense_is_refused_in_time(text: str) -> None:
    """Whatever the text, no search starts over and over: seconds would mean that it does."""
    with pytest.raises(MalformedJson):
        parse(text)


def test_any_buffer() -> None:
    for kind in (bytes, bytearray, memoryview):
        assert parse(kind(b'{"a":1}')) == {"a": 1}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": None, "b": 1}, '{"b":1}'),
        ([None, 1], "[null,1]"),
        ({"a": 'q"\\\b\t\n\f\r\x01\x7f/é'}, '{"a":"q\\"\\\\\\b\\t\\n\\f\\r\\u0001\x7f/é"}'),
        ({0: "x", 10: "y"}, '{0:"x",10:"y"}'),
        ({ObjectKey({"queueId": 1, "topic": "T"}): 2}, '{{"queueId":1,"topic":"T"}:2}'),
        ([True, False, 1.0], "[true,false,1.0]"),
    ],
)
def test_writing(value: object, text: str) -> None:
    assert write(value) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.5, "1.5"),
        (100.0, "100.0"),
        (0.001, "0.001"),
        (0.0009999, "9.999E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (1e10, "1.0E10"),
        (1e-5, "1.0E-5"),
        (9.99999999e9, "9.99999999E9"),
        (123456789.125, "1.23456789125E8"),
        (-2e300, "-2.0E300"),
        (float("nan"), "null"),
        (float("inf"), "null"),
    ],
)
def test_doubles_as_java_prints_them(number: float, text: str) -> None:
    assert double_text(number) == text


def test_config_files() -> None:
    value = {
        "dataVersion": {"counter": 1},
        "offsetTable": {"T@G": {0: 4, 1: 1}},
        "empty": {},
        "list": [1, "b"],
    }
    text = (
        '{\n\t"dataVersion":{\n\t\t"counter":1\n\t},\n\t"offsetTable":{\n\t\t"T@G":{\n\t\t\t0:4,\n\t\t\t1:1\n\t\t}'
        '\n\t},\n\t"empty":{\n\t\t\n\t},\n\t"list":[\n\t\t1,\n\t\t"b"\n\t]\n}'
    )
    assert write_pretty(value) == text
    assert write(parse(text)) == write(value).replace("0:4,1:1", '"0":4,"1":1')


def test_standard_json() -> None:
    value = {"b": {10: "x", 9: "é"}, "a": float("nan"), "c": [None, {ObjectKey({"t": "T"}): 1}], "d": None}
    assert write_standard(value) == (
        '{"a":null,"b":{"10":"x","9":"\\u00e9"},"c":[null,{"{\\"t\\":\\"T\\"}":1}]}'
    )


def test_object_keys_are_equal_by_their_fields() -> None:
    one, other = ObjectKey({"a": 1, "b": 2}), ObjectKey({"b": 2, "a": 1})
    assert one == other
    assert hash(one) == hash(other)
    assert one != ObjectKey({"a": 1})
    assert "a" in repr(one)


def test_what_has_no_json_text() -> None:
    with pytest.raises(TypeError):
        fastjson.write(object())


@pytest.mark.parametrize("name", ["plain", "}:{", "},{", '\\"}:{\\"', "{", "\\u007d:{"])
@pytest.mark.parametrize("blank", ["", " "])
def test_a_long_table_by_objects_is_read_in_pieces_as_its_rows_are(name: str, blank: str) -> None:
    rows = [f'{{"topic":"{name}","queueId":{number}}}:{blank}{{"max":{number}}}' for number in range(6000)]
    whole = fastjson.parse("{" + ",".join(rows) + "}")
    assert list(whole.items()) == [pair for row in rows for pair in fastjson.parse(f"{{{row}}}").items()]


@pytest.mark.parametrize("wrong", ['{"a":1},{"b":2}', '{"a":1}:{"b":2}:{"c":3}', '{"a":{"b":1}}', "5"])
def test_a_long_table_with_a_member_that_is_none_is_refused(wrong: str) -> None:
    rows = [f'{{"queueId":{number}}}:{{"max":{number}}}' for number in range(6000)]
    rows.insert(100, wrong)
    with pytest.raises(MalformedJson):
        fastjson.parse("{" + ",".join(rows) + "}")
