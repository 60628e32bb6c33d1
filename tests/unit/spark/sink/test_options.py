from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from orbitmq.spark.errors import BadOption
from orbitmq.spark.sink.options import WriteOptions

NAMESRV = {"namesrv": "127.0.0.1:1"}


def options(**given: str) -> WriteOptions:
    return WriteOptions.parse(NAMESRV | given)


def test_an_unknown_option_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(BadOption, match="unknown option batchsizes; did you mean batchSize"):
        options(batchsizes="3")


def test_options_come_in_any_case() -> None:
    assert options(BATCHSIZE="3").batch_size == 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"path": "x"}, "a topic is no path"),
        ({"delayLevel": "1", "delayMs": "5"}, "say the same in different ways"),
        ({"writeId": "x"}, "idempotent=true only"),
        ({"batchSize": "0"}, "whole number above 0"),
        ({"idempotent": "yes"}, "true or false"),
        ({"topic": "no good"}, "illegal characters"),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, "belongs to the brokers"),
        ({"accessKey": "a"}, "go together"),
        ({"maxMessagesPerSecondPerTask": "-1"}, "a number above 0"),
        ({"tags": ""}, "is empty"),
        ({"namesrv": "nowhere"}, "host:port"),
    ],
)
def test_values_that_cannot_be_are_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(BadOption, match=message):
        WriteOptions.parse(NAMESRV | given)


def test_what_spark_hands_on_for_itself_is_no_unknown_option() -> None:
    assert WriteOptions.parse(NAMESRV | {"checkpointLocation": "/x", "topic": "t"}).topic == "t"
