from __future__ import annotations

import pytest

from orbitmq.protocol import names


@pytest.mark.parametrize("topic", ["T", "a-B_9|%", "t" * 127, "%RETRY%" + "g" * 248, "%DLQ%" + "g" * 200])
def test_topics(topic: str) -> None:
    names.check_topic(topic)


@pytest.mark.parametrize(
    ("topic", "remark"),
    [
        (None, "The specified topic is blank."),
        ("", "The specified topic is blank."),
        ("  ", "The specified topic is blank."),
        ("a b", "The specified topic: a b, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"),
        ("a\n", "illegal characters"),
        ("é", "illegal characters"),
        ("../x", "illegal characters"),
        ("t" * 128, "longer than topic max length: 127"),
        ("%RETRY%" + "g" * 249, "longer than topic max length: 255"),
    ],
)
def test_no_topics(topic: str | None, remark: str) -> None:
    with pytest.raises(names.IllegalName) as raised:
        names.check_topic(topic)
    assert remark in str(raised.value)


def test_groups() -> None:
    names.check_group("g" * 120)
    for group in (None, "", "a b", "g" * 121, "%RETRY%" + "g" * 120):
        with pytest.raises(names.IllegalName):
            names.check_group(group)


def test_topics_of_a_group() -> None:
    assert names.retry_topic("G") == "%RETRY%G"
    assert names.dlq_topic("G") == "%DLQ%G"


def test_system_names() -> None:
    assert names.is_system_topic("TBW102")
    assert names.is_system_topic("rmq_sys_anything")
    assert not names.is_system_topic("flights")
    assert names.is_system_group("CID_RMQ_SYS_TRANS")
    assert not names.is_system_group("TOOLS_CONSUMER")
    assert names.NO_SEND_TOPICS < names.SYSTEM_TOPICS
    assert names.BENCHMARK_TOPIC not in names.NO_SEND_TOPICS


def test_reserved_properties_are_the_property_names() -> None:
    assert {"KEYS", "TAGS", "UNIQ_KEY", "1ST_POP_TIME", "__CRC32#", "E_T"} < names.RESERVED_PROPERTIES
    assert len(names.RESERVED_PROPERTIES) == 67
    assert not {"TBW102", "K", " ", "%RETRY%"} & names.RESERVED_PROPERTIES
