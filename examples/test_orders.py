from orbitmq.sync import FIRST_OFFSET, Message, Producer, PushConsumer
from orbitmq.testing import LocalBroker


def test_an_order_arrives(rocketmq: LocalBroker) -> None:  # name server and broker, up in under a second
    with Producer("shop", rocketmq.namesrv) as producer:
        producer.send(Message("orders", "order 1"))
    with PushConsumer("billing", rocketmq.namesrv, consume_from_where=FIRST_OFFSET) as consumer:
        consumer.subscribe("orders")
        assert next(iter(consumer)).body == b"order 1"
