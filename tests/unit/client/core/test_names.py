from __future__ import annotations

import pytest

from orbitmq.client.core.names import NO_SEND_TOPICS, check_group, check_topic_to_send
from orbitmq.protocol.names import IllegalName


@pytest.mark.parametrize("topic", ["T", "%RETRY%g", "a|b-c_d9"])
def test_topics_that_may_be_sent_to(topic: str) -> None:
    check_topic_to_send(topic)


@pytest.mark.parametrize("topic", sorted(NO_SEND_TOPICS))
def test_topics_of_the_brokers(topic: str) -> None:
    with pytest.raises(IllegalName, match="belongs to the brokers"):
        check_topic_to_send(topic)


def test_groups() -> None:
    check_group("g")
    with pytest.raises(IllegalName, match="nobody"):
        check_group("DEFAULT_CONSUMER")
