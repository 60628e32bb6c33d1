import pytest

from orbitmq.broker.client.clients import CHANNEL_EXPIRED_MS, ClientTable
from orbitmq.broker.client.outbox import Outbox
from orbitmq.handling.call import Peer
from orbitmq.protocol.bodies.heartbeat import ConsumerData, ConsumeType, MessageModel, SubscriptionData


def peer(connection_id: int) -> Peer:
    return Peer(connection_id, b"\x7f\x00\x00\x01\x00\x00\x00\x01", f"127.0.0.1:{connection_id}", version=493)


def data(
    *topics: str, tags: str = "*", version: int = 1, model: MessageModel = MessageModel.CLUSTERING
) -> ConsumerData:
    return ConsumerData(
        "G",
        ConsumeType.CONSUME_PASSIVELY,
        model,
        subscription_data_set=[SubscriptionData(topic, tags, sub_version=version) for topic in topics],
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


def test_a_fingerprint_differs_from_an_earlier_one_of_the_same_member_only() -> None:
    group = Group()
    changed = group.clients.fingerprint_changed
    for connection_id in (1, 2):
        group.beat(connection_id, data("T"))
        assert not changed("G", connection_id, connection_id)
    assert not changed("G", 1, 1)
    assert changed("G", 1, 8)
    group.beat(3, data(), without_sub=True)
    assert changed("G", 3, 8)  # it has not said yet what it subscribes


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


def filters(group: Group) -> list[str]:
    return [f"{one.topic} {one}" for one in group.clients.consumers["G"].filters_of_members()]


def test_members_that_differ_are_named_and_told_until_they_agree_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    group = Group()
    group.beat(1, data("T", "%RETRY%G", tags="a || b"))
    group.beat(2, data("T", "%RETRY%G", tags=" b||a", version=7))  # the same, in other words
    assert filters(group) == []
    group.told()
    group.beat(3, data("T", tags="stray", version=9))
    assert filters(group) == ["T `a || b` (c1, c2)", "T `stray` (c3)"]
    assert group.told() == [1, 2, 3]
    group.beat(4, data("T", tags="a||b"))  # one more of a kind: said once
    group.beat(3, data("T", tags="stray", version=9))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert all(word in caplog.text for word in ("group G", "T: `a || b` (c1, c2), `stray` (c3)"))
    assert group.clients.differed == 1
    group.clients.connection_closed(3)
    assert filters(group) == []
    assert "same filters again" in caplog.records[-1].message
    subscription = group.clients.subscription("G", "T")
    assert subscription is not None
    assert subscription.filter == ("TAG", "a || b")  # the newest of those that are here


@pytest.mark.parametrize(
    ("stray", "expected"),
    [
        (data("U"), ["T not subscribed (c2)", "T `*` (c1)", "U not subscribed (c1)", "U `*` (c2)"]),
        (data("T", model=MessageModel.BROADCASTING), ["T `*` (c1)", "T `*`, broadcasting (c2)"]),
        (data(), []),  # it pulls by itself, and says with each pull what it wants
    ],
)
def test_members_differ_in_topics_and_models_too(stray: ConsumerData, expected: list[str]) -> None:
    group = Group()
    group.beat(1, data("T"))
    group.beat(2, stray)
    assert filters(group) == expected
    group.clients.unregister_consumer("G", 2)
    assert filters(group) == []
    assert set(group.clients.consumers["G"].subscriptions) == {"T"}


def test_a_broadcasting_member_owns_no_queue_of_those_that_share_them() -> None:
    group = Group()
    group.beat(1, data("T"))
    group.beat(2, data("T", model=MessageModel.BROADCASTING))
    assert group.clients.consumers["G"].client_ids() == ["c1"]
    assert group.told() == [1, 2]


def test_a_client_that_comes_again_replaces_what_its_old_connection_said() -> None:
    group = Group()

    def beat(connection_id: int, consumer: ConsumerData, *, with_subscriptions: bool = True) -> None:
        group.clients.register_consumer(
            consumer,
            "same",
            peer(connection_id),
            0,
            notifies=True,
            with_subscriptions=with_subscriptions,
        )

    beat(1, data("T", tags="old"))
    beat(2, data("T"), with_subscriptions=False)
    members = group.clients.consumers["G"]
    assert members.subscription_of(2, "T") is members.subscription_of(1, "T")
    beat(2, data("T", tags="new", version=2))
    assert filters(group) == []
    beat(1, data("T", tags="old"))  # both are alive: two clients that have one id
    assert filters(group) == ["T `new` (same)", "T `old` (same)"]
    group.clients.connection_closed(2)
    assert filters(group) == []
    subscription = group.clients.subscription("G", "T")
    assert subscription is not None
    assert subscription.sub_string == "old"


def test_a_connection_that_has_said_nothing_reads_as_the_group_does_while_members_agree() -> None:
    group = Group()
    group.beat(1, data("T", tags="a"))
    members = group.clients.consumers["G"]
    assert members.subscription_of(9, "T") is not None
    group.beat(2, data("T", tags="b"))
    assert members.subscription_of(9, "T") is None
    by_proxy = members.subscription_of(9, "T", "c2")
    assert by_proxy is not None
    assert by_proxy.sub_string == "b"


def test_the_newest_subscription_is_that_of_a_member_that_is_here() -> None:
    group = Group()
    for connection_id in range(1, 5):
        group.beat(connection_id, data("T", version=connection_id))
    for newest in (4, 3):
        group.clients.connection_closed(newest)
    group.beat(5, data("T", "U", version=1))
    subscriptions = group.clients.consumers["G"].subscriptions
    assert {topic: one.sub_version for topic, one in subscriptions.items()} == {"T": 2, "U": 1}
    group.clients.connection_closed(2)
    group.beat(6, data("T", version=9))
    group.clients.connection_closed(5)
    subscriptions = group.clients.consumers["G"].subscriptions
    assert {topic: one.sub_version for topic, one in subscriptions.items()} == {"T": 9}
