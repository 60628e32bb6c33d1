"""Light queues that a message names: its lite topic's, and others with the right to write there."""

import pytest

from orbitmq.broker.send.light_queues import light_queues
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused


@pytest.mark.parametrize("delayed", [{}, {"DELAY": "3"}])
def test_a_message_is_in_no_light_queue_that_its_sender_may_not_write_to(delayed: dict[str, str]) -> None:
    def names(*lmqs: str) -> tuple[str, ...]:
        properties = {"INNER_MULTI_DISPATCH": ",".join(lmqs), **delayed}
        return light_queues(TopicConfig(topic_name="mine"), properties, True, lambda name: name == "%LMQ%x")

    allowed = ("%LMQ%$mine$a", "%LMQ%x")
    assert names(*allowed) == (() if delayed else allowed)
    for name, code in (
        ("%LMQ%$salaries$a", ResponseCode.MESSAGE_ILLEGAL),
        ("%LMQ%$mine2$a", ResponseCode.MESSAGE_ILLEGAL),
        ("%LMQ%y", ResponseCode.NO_PERMISSION),
    ):
        with pytest.raises(Refused) as refused:
            names("%LMQ%x", name)
        assert refused.value.code == code
