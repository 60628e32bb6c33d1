from orbitmq.broker.client.clients import CHANNEL_EXPIRED_MS, ClientTable
from orbitmq.broker.client.outbox import Outbox
from orbitmq.handling.call import Peer
from orbitmq.protocol.bodies.heartbeat import ConsumerData, ConsumeType, MessageModel, SubscriptionData


def peer(connection_id: int) -> Peer:
    return Peer(connection_id, b"\x7f\x00\x00\x01\x00\x00\x00\x01", f"127.0.0.1:{connection_id}", version=493)


def data(*topics: str, version: int = 1, model: MessageModel = MessageModel.CLUSTERING) -> ConsumerData:
    return ConsumerData(
        "G",
        ConsumeType.CONSUME_PASSIVELY,
        model,
        subscription_data_set=[SubscriptionData(topic, "*", sub_version=version) for topic in topics],
    )


class Group:
    """A client table with a group in it, and whom it told of changes."""

    def __init__(self) -> None:
        self.outbox = Outbox()
        self.clients = ClientTable(self.outbox)

    def beat(
        self, connection_id: int, consumer: ConsumerData, now: int = 0, *, without_sub: bool = False
    ) -> bool:
        return self.clients.register_consumer(
            consumer,
            f"c{connection_id}",
            peer(connection_id),
            now,
            notifies=True,
            with_subscriptions=not without_sub,
        )

    def told(self, now: int = 0) -> list[int]:
        self.clients.notify(now)
        return [connection_id for connection_id, _ in self.outbox.drain()]


def test_members_hear_who_comes_and_goes() -> None:
    group = Group()
    assert group.beat(1, data("T"))
    assert group.told() == [1]
    assert not group.beat(1, data("T"))
    assert group.told() == []
    assert group.beat(2, data("T"))
    assert group.told() == [1, 2]
    group.clients.unregister_consumer("G", 1)
    assert group.told() == [2]
    group.clients.connection_closed(2)
    assert group.told() == []
    assert "G" not in group.clients.consumers


def test_members_hear_of_topics_but_not_of_newer_versions() -> None:
    group = Group()
    group.beat(1, data("T"))
    group.told()
    assert group.beat(1, data("T", "U"))
    assert group.told() == [1]
    assert not group.beat(1, data("T", "U", version=2))
    assert group.told() == []
    subscription = group.clients.subscription("G", "T")
    assert subscription is not None
    assert subscription.sub_version == 2
    assert group.beat(1, data("U", version=3))
    assert group.clients.subscription("G", "T") is None


def test_an_older_subscription_replaces_nothing() -> None:
    group = Group()
    group.beat(1, data("T", version=5))
    group.beat(1, data("T", version=4))
    subscription = group.clients.subscription("G", "T")
    assert subscription is not None
    assert subscription.sub_version == 5


def test_broadcasting_members_are_told_nothing() -> None:
    group = Group()
    group.beat(1, data("T", model=MessageModel.BROADCASTING))
    group.beat(2, data("T", model=MessageModel.BROADCASTING))
    assert group.told() == []


def test_a_short_heartbeat_keeps_the_subscriptions() -> None:
    group = Group()
    group.beat(1, data("T"))
    assert not group.beat(1, data(), without_sub=True)
    assert group.clients.subscription("G", "T") is not None


def test_the_fingerprint_of_a_group_differs_from_an_earlier_one_only() -> None:
    clients = ClientTable(Outbox())
    assert not clients.fingerprint_changed("G", 7)
    assert not clients.fingerprint_changed("G", 7)
    assert clients.fingerprint_changed("G", 8)


def test_silent_clients_are_cut_off() -> None:
    group = Group()
    group.beat(1, data("T"), now=0)
    group.beat(2, data("T"), now=50_000)
    group.clients.register_producer("P", "c1", peer(1), 0)
    group.told()
    assert group.clients.expire(CHANNEL_EXPIRED_MS) == []
    assert group.clients.expire(CHANNEL_EXPIRED_MS + 1) == [1]
    assert group.told() == [2]
    assert group.clients.producers == {}


def test_a_client_id_on_two_connections_counts_once() -> None:
    clients = ClientTable(Outbox())
    for connection_id in (1, 2):
        clients.register_consumer(
            data("T"), "same", peer(connection_id), 0, notifies=True, with_subscriptions=True
        )
    group = clients.consumers["G"]
    assert group.client_ids() == ["same"]
    newest = group.find_client("same")
    assert newest is not None
    assert newest.connection_id == 2
    assert group.find_client("other") is None


def test_producers_by_group() -> None:
    clients = ClientTable(Outbox())
    clients.register_producer("P", "c1", peer(1), 0)
    clients.register_producer("P", "c2", peer(2), 0)
    clients.unregister_producer("P", 1)
    assert [client.client_id for client in clients.producers["P"].values()] == ["c2"]
    clients.unregister_producer("P", 2)
    assert clients.producers == {}
    clients.unregister_producer("unknown", 2)


def test_groups_that_subscribe_a_topic() -> None:
    group = Group()
    group.beat(1, data("T"))
    assert group.clients.groups_of("T") == {"G"}
    assert group.clients.groups_of("U") == set()


def test_a_group_to_which_many_come_one_by_one_is_not_told_of_each() -> None:
    members, told = 2000, 0
    group = Group()
    for connection_id in range(members):
        group.beat(connection_id, data("T"))
        told += len(group.told(now=connection_id // 10))
    assert told < members * 20  # 2,000,000 where every member hears of every other
    (at,) = {group.clients.notify(now=members // 10)}
    assert at is not None
    assert group.told(now=at) == list(range(members))
    assert not group.clients.unnotified
    assert group.clients.notify(now=at) is None


def test_a_small_group_hears_of_each_change_at_once() -> None:
    group = Group()
    for connection_id in range(9):
        group.beat(connection_id, data("T"))
        assert len(group.told()) == connection_id + 1
