import pytest

from orbitmq.protocol.signing import Credentials
from orbitmq.spark.columns import NAMES
from orbitmq.spark.connecting import Connecting
from orbitmq.spark.errors import BadOption
from orbitmq.spark.options import OPTIONS, ReadOptions


def parse(**given: str) -> ReadOptions:
    return ReadOptions.parse({"subscribe": "orders", **given})


def test_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    options = parse()
    assert options.topics == ("orders",)
    assert options.namesrv == ("127.0.0.1:9876",)
    assert options.starting is None
    assert options.ending is None
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
    assert options.starting == {"orders": {"broker-a|0": -2}}
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
        ({"subscribe": "no spaces"}, "no topic name"),
        ({"path": "orders"}, "a topic is no path"),
        ({"subscribe": "a", "startingOffset": "earliest"}, "did you mean startingOffsets?"),
        ({"subscribe": "a", "startingOffsets": "latest"}, "may not be latest"),
        ({"subscribe": "a", "endingOffsets": "earliest"}, "may not be earliest"),
        ({"subscribe": "a", "startingOffsets": "{"}, "neither earliest nor JSON"),
        ({"subscribe": "a", "startingOffsets": '{"a":{"0":1}}'}, "neither earliest nor JSON"),
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


def test_every_option_is_read() -> None:
    """A row in the table that the parser passes over would be an option without effect."""
    other = {
        "subscribe": "t2",
        "topic": "t2",
        "namesrv": "h:1",
        "startingOffsets": '{"t":{"b|0":1}}',
        "endingOffsets": '{"t":{"b|0":1}}',
        "minPartitions": "3",
        "maxRecordsPerPartition": "3",
        "tags": "A",
        "columns": "body",
        "maxBatchBytes": "3",
        "failOnDataLoss": "false",
        "group": "g",
        "accessKey": "bob",
        "secretKey": "other",
        "securityToken": "token",
        "tls": "true",
        "tlsCa": "/etc/ca.pem",
    }
    keys = {"accessKey": "ann", "secretKey": "s3cret"}
    assert set(other) == {row.name for row in OPTIONS}
    plain = ReadOptions.parse({"subscribe": "t", **keys})
    for name, value in other.items():
        base = keys if name in ("subscribe", "topic") else {"subscribe": "t", **keys}
        assert ReadOptions.parse({**base, name: value}) != plain, name


def test_keys_and_tls() -> None:
    given = {"subscribe": "t", "accessKey": "ann", "secretKey": "s3cret", "securityToken": "token"}
    parsed = ReadOptions.parse({**given, "tls": "TRUE", "tlsCa": "/etc/ca.pem"})
    assert parsed.connecting == Connecting(Credentials("ann", "s3cret", "token"), True, "/etc/ca.pem")
    assert "s3cret" not in repr(parsed)
    assert ReadOptions.parse({"subscribe": "t"}).connecting == Connecting()
    for half in ({"accessKey": "ann"}, {"secretKey": "s3cret"}):
        with pytest.raises(BadOption, match="go together"):
            ReadOptions.parse({"subscribe": "t", **half})
