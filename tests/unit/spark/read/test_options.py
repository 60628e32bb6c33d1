import pytest

from orbitmq.protocol.remoting.signing import Credentials
from orbitmq.spark.errors import BadOption
from orbitmq.spark.read.columns import NAMES
from orbitmq.spark.read.connecting import Connecting
from orbitmq.spark.read.option_rows import OPTIONS
from orbitmq.spark.read.options import ReadOptions
from orbitmq.spark.read.positions import EARLIEST, LATEST, Position


def parse(**given: str) -> ReadOptions:
    return ReadOptions.parse({"subscribe": "orders", **given})


def test_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    options = parse()
    assert options.topics == ("orders",)
    assert options.namesrv == ("127.0.0.1:9876",)
    assert options.starting == Position(everywhere=EARLIEST)
    assert options.ending == Position(everywhere=LATEST)
    assert ReadOptions.parse({"subscribe": "t"}, streaming=True).starting == Position(everywhere=LATEST)
    assert options.columns == NAMES
    assert options.subscription == "*"
    assert options.max_batch_bytes == 4 << 20
    assert options.fail_on_data_loss


def test_name_server_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "ns1:9876;ns2:9876")
    assert parse().namesrv == ("ns1:9876", "ns2:9876")
    assert parse(namesrv="other:1").namesrv == ("other:1",)


def test_names_in_any_case() -> None:
    options = parse(STARTINGOFFSETS='{"orders":{"broker-a|0":-2}}', failondataloss="FALSE")
    assert options.starting == Position(offsets={"orders": {"broker-a|0": -2}})
    assert not options.fail_on_data_loss


def test_topics_and_tags_are_lists() -> None:
    options = ReadOptions.parse({"topic": "a, b,a", "tags": "X || Y||X"})
    assert options.topics == ("a", "b")
    assert options.tags == ("X", "Y")
    assert options.subscription == "X || Y"
    assert parse(tags=" * ").tags == ()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "no topic given"),
        ({"subscribe": " , "}, "no topic given"),
        ({"subscribe": "a", "topic": "a"}, "set one of them"),
        ({"subscribe": "a", "subscribePattern": "a.*"}, "exclude each other"),
        ({"subscribePattern": "a("}, "no regular expression"),
        ({"assign": "{}"}, "assign is not JSON"),
        ({"assign": '{"a":[]}'}, "assign is not JSON"),
        ({"assign": '{"a":[true]}'}, "assign is not JSON"),
        ({"assign": '{"a":["b|x"]}'}, "assign is not JSON"),
        ({"assign": '{"a b":[0]}'}, "no topic name"),
        ({"subscribe": "no spaces"}, "no topic name"),
        ({"subscribe": "a", "startingOffset": "earliest"}, "did you mean startingOffsets?"),
        ({"subscribe": "a", "startingOffsets": "latest"}, "may not be latest"),
        ({"subscribe": "a", "endingOffsets": "earliest"}, "may not be earliest"),
        ({"subscribe": "a", "startingOffsets": "{"}, "neither earliest nor JSON"),
        ({"subscribe": "a", "startingOffsets": '{"a":{"|0":1}}'}, "neither earliest nor JSON"),
        ({"subscribe": "a", "startingOffsets": '{"a":{"b|0":-3}}'}, "no offset"),
        ({"subscribe": "a", "startingTimestamp": "yesterday"}, "milliseconds since 1970"),
        (
            {"subscribe": "a", "startingOffsetsByTimestamp": '{"a":1}'},
            "startingOffsetsByTimestamp is not JSON",
        ),
        ({"subscribe": "a", "endingOffsetsByTimestamp": '{"a":{"b|0":-1}}'}, "no time"),
        ({"subscribe": "a", "startingOffsetsByTimestampStrategy": "none"}, "error or latest"),
        ({"subscribe": "a", "maxOffsetsPerTrigger": "5"}, "means nothing to a batch read"),
        ({"subscribe": "a", "minOffsetsPerTrigger": "5"}, "means nothing to a batch read"),
        ({"subscribe": "a", "sql": " "}, "sql is empty"),
        ({"subscribe": "a", "sql": "a > 1", "tags": "A"}, "exclude each other"),
        ({"subscribe": "a", "group": "g"}, "did you mean groupId?"),
        ({"subscribe": "a", "kafka.bootstrap.servers": "h:1"}, "did you mean namesrv?"),
        ({"subscribe": "a", "startingOffsets": '{"a":{"b|0":true}}'}, "neither earliest nor JSON"),
        ({"subscribe": "a", "endingOffsets": '{"a":{"b|0":-2}}'}, "no offset"),
        ({"subscribe": "a", "namesrv": "nowhere"}, "namesrv"),
        ({"subscribe": "a", "minPartitions": "0"}, "minPartitions"),
        ({"subscribe": "a", "maxRecordsPerPartition": "many"}, "maxRecordsPerPartition"),
        ({"subscribe": "a", "maxBatchBytes": "-1"}, "maxBatchBytes"),
        ({"subscribe": "a", "failOnDataLoss": "maybe"}, "failOnDataLoss"),
        ({"subscribe": "a", "columns": "topic,bodies"}, "did you mean body?"),
        ({"subscribe": "a", "columns": "topic,topic"}, "twice"),
        ({"subscribe": "a", "columns": " "}, "columns"),
    ],
)
def test_what_is_wrong_is_said(given: dict[str, str], says: str) -> None:
    with pytest.raises(BadOption) as caught:
        ReadOptions.parse(given)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"endingOffsets": "latest"}, "endingOffsets means nothing to a stream"),
        ({"endingTimestamp": "1"}, "endingTimestamp means nothing to a stream"),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "above maxOffsetsPerTrigger"),
        ({"maxTriggerDelay": "5m"}, "goes with minOffsetsPerTrigger"),
        ({"minOffsetsPerTrigger": "5", "maxTriggerDelay": "soon"}, "a span like"),
    ],
)
def test_what_is_wrong_of_a_stream_is_said(given: dict[str, str], says: str) -> None:
    with pytest.raises(BadOption) as caught:
        ReadOptions.parse({"subscribe": "a", **given}, streaming=True)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("text", "ms"), [("500ms", 500), ("30s", 30_000), ("15m", 900_000), ("2 h", 7_200_000), ("7", 7000)]
)
def test_spans(text: str, ms: int) -> None:
    given = {"subscribe": "a", "minOffsetsPerTrigger": "1", "maxTriggerDelay": text}
    assert ReadOptions.parse(given, streaming=True).max_trigger_delay_ms == ms


def test_times_win_over_offsets() -> None:
    by_queue = '{"a":{"b|0":7}}'
    offsets = {"startingOffsets": by_queue, "endingOffsets": by_queue}
    assert parse(**offsets).starting == Position(offsets={"a": {"b|0": 7}})
    times = {"startingOffsetsByTimestamp": by_queue, "endingOffsetsByTimestamp": by_queue}
    assert parse(**offsets, **times).starting == Position(times_ms={"a": {"b|0": 7}})
    assert parse(**offsets, **times).ending == Position(times_ms={"a": {"b|0": 7}})
    one = parse(**offsets, **times, startingTimestamp="5", endingTimestamp="6")
    assert (one.starting, one.ending) == (Position(time_ms=5), Position(time_ms=6))


def test_topics_can_be_chosen_in_three_ways() -> None:
    assert ReadOptions.parse({"subscribePattern": "a.*"}).selects("abc")
    assert not ReadOptions.parse({"subscribePattern": "a.*"}).selects("ba")
    assigned = ReadOptions.parse({"assign": '{"a":[0,"b|1",0]}'})
    assert assigned.topics == ("a",)
    assert assigned.assigned == {"a": ("0", "b|1")}


def test_every_option_is_read() -> None:
    """A row in the table that the parser passes over would be an option without effect."""
    other = {
        "subscribe": "t2",
        "topic": "t2",
        "subscribePattern": "t2",
        "assign": '{"t2":[0]}',
        "namesrv": "h:1",
        "startingOffsets": '{"t":{"b|0":1}}',
        "endingOffsets": '{"t":{"b|0":1}}',
        "startingTimestamp": "5",
        "startingOffsetsByTimestamp": '{"t":{"b|0":1}}',
        "endingTimestamp": "5",
        "endingOffsetsByTimestamp": '{"t":{"b|0":1}}',
        "startingOffsetsByTimestampStrategy": "latest",
        "maxOffsetsPerTrigger": "9",
        "minOffsetsPerTrigger": "2",
        "maxTriggerDelay": "1m",
        "sql": "a > 1",
        "minPartitions": "3",
        "maxRecordsPerPartition": "3",
        "tags": "A",
        "columns": "body",
        "maxBatchBytes": "3",
        "maxInflatedBodyBytes": "3",
        "failOnUnreadableBody": "false",
        "failOnDataLoss": "false",
        "groupId": "g",
        "accessKey": "bob",
        "secretKey": "other",
        "securityToken": "token",
        "tls": "true",
        "tlsCa": "/etc/ca.pem",
    }
    keys = {"accessKey": "ann", "secretKey": "s3cret"}
    common = {"subscribe": "t", **keys}
    assert set(other) == {row.name for row in OPTIONS}
    for row in OPTIONS:
        base = keys if row.name in ("subscribe", "topic", "subscribePattern", "assign") else common
        if row.name == "maxTriggerDelay":
            base = {**base, "minOffsetsPerTrigger": "1"}
        streaming = row.only == "stream"
        plain = ReadOptions.parse({**common, **base}, streaming=streaming)
        assert ReadOptions.parse({**base, row.name: other[row.name]}, streaming=streaming) != plain, row.name


def test_keys_and_tls() -> None:
    given = {"subscribe": "t", "accessKey": "ann", "secretKey": "s3cret", "securityToken": "token"}
    parsed = ReadOptions.parse({**given, "tls": "TRUE", "tlsCa": "/etc/ca.pem"})
    assert parsed.connecting == Connecting(Credentials("ann", "s3cret", "token"), True, "/etc/ca.pem")
    assert "s3cret" not in repr(parsed)
    assert ReadOptions.parse({"subscribe": "t"}).connecting == Connecting()
    for half in ({"accessKey": "ann"}, {"secretKey": "s3cret"}):
        with pytest.raises(BadOption, match="go together"):
            ReadOptions.parse({"subscribe": "t", **half})
