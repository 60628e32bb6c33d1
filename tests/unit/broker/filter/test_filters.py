"""The table of filters: versions, death and return, the file, and how much it takes."""

from __future__ import annotations

import logging

import pytest

from orbitmq.broker.client.clients import ClientTable
from orbitmq.broker.client.outbox import Outbox
from orbitmq.broker.filter import filters as module
from orbitmq.broker.filter.filters import FilterTable, Wanted
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.protocol.bodies.heartbeat import ConsumerData, SubscriptionData
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.schema.fastjson import parse
from orbitmq.store.queue.filtering import ExtensionUnit
from tests.kit.world import NOW, Settings, World

DAY_MS = 86_400_000


def table(**settings: object) -> FilterTable:
    return FilterTable(Settings(**settings), DirtyTables(), NOW)  # type: ignore[arg-type]


def sql(text: str, version: int = 1, topic: str = "T1") -> SubscriptionData:
    return SubscriptionData(topic, text, "SQL92", sub_version=version)


def expression(filters: FilterTable, group: str = "G2", topic: str = "T1") -> str | None:
    known = filters.get(topic, group)
    return None if known is None else known.data.expression


def test_a_newer_version_replaces_an_older_one_and_none_else() -> None:
    filters = table()
    filters.register("G2", [sql("a > 3", 5)], NOW)
    filters.register("G2", [sql("a > 4", 5)], NOW)
    filters.register("G2", [sql("a > 5", 4)], NOW)
    assert expression(filters) == "a > 3"
    filters.register("G2", [sql("a > 6", 6)], NOW + 10)
    assert expression(filters) == "a > 6"
    known = filters.get("T1", "G2")
    assert known is not None
    assert known.data.born_time == NOW + 10


def test_the_same_expression_in_a_newer_version_keeps_its_birth() -> None:
    filters = table()
    filters.register("G2", [sql("a > 3", 5)], NOW)
    filters.register("G2", [sql("a > 3", 6)], NOW + 10)
    known = filters.get("T1", "G2")
    assert known is not None
    assert (known.data.client_version, known.data.born_time) == (6, NOW)


def test_what_cannot_be_read_is_not_kept_and_replaces_nothing_but_its_forerunner() -> None:
    filters = table()
    filters.register("G2", [sql("a >", 5), sql("b = 1", 5, "T2")], NOW)
    assert expression(filters) is None
    assert expression(filters, topic="T2") == "b = 1"
    filters.register("G2", [sql("b >", 6, "T2")], NOW)
    assert expression(filters, topic="T2") is None


def test_tags_are_no_filter() -> None:
    filters = table()
    filters.register("G2", [SubscriptionData("T1", "A || B", "TAG", sub_version=1)], NOW)
    assert len(filters) == 0


def test_without_the_option_nothing_is_kept_and_requests_are_refused() -> None:
    filters = table(enable_property_filter=False)
    filters.register("G2", [sql("a > 3")], NOW)
    assert len(filters) == 0
    with pytest.raises(Refused, match="does not support consumer to filter message by SQL92"):
        filters.of_request("T1", "a > 3", "SQL92")


def consumer(clients: ClientTable, world: World, *subscriptions: SubscriptionData) -> None:
    clients.register_consumer(
        ConsumerData(group_name="G2", subscription_data_set=list(subscriptions)),
        "client",
        world.peer(),
        NOW,
        notifies=False,
        with_subscriptions=True,
    )


def test_a_filter_dies_with_its_group_and_is_kept_for_a_day() -> None:
    filters, clients, world = table(), ClientTable(Outbox()), World()
    consumer(clients, world, sql("a > 3"))
    filters.register("G2", [sql("a > 3")], NOW)
    filters.tend(clients.subscription, NOW + 10)
    known = filters.get("T1", "G2")
    assert known is not None
    assert not known.is_dead
    clients.connection_closed(1)
    filters.tend(clients.subscription, NOW + 20)
    assert known.is_dead
    assert known.data.dead_time == NOW + 20
    filters.tend(clients.subscription, NOW + 20 + DAY_MS - 1)
    assert len(filters) == 1
    filters.tend(clients.subscription, NOW + 20 + DAY_MS)
    assert len(filters) == 0


def test_the_time_for_which_a_dead_filter_is_kept_is_an_option() -> None:
    filters, clients = table(filter_data_clean_time_span=1000), ClientTable(Outbox())
    filters.register("G2", [sql("a > 3")], NOW)
    filters.tend(clients.subscription, NOW)
    filters.tend(clients.subscription, NOW + 1000)
    assert len(filters) == 0


def test_a_filter_dies_when_its_group_wants_something_else() -> None:
    filters, clients, world = table(), ClientTable(Outbox()), World()
    filters.register("G2", [sql("a > 3"), sql("b = 1", topic="T2")], NOW)
    consumer(clients, world, SubscriptionData("T1", "*", "TAG", sub_version=2), sql("b = 1", topic="T2"))
    filters.tend(clients.subscription, NOW + 10)
    assert [known.data.topic for known in filters if known.is_dead] == ["T1"]


def test_a_group_that_comes_back_revives_its_filter() -> None:
    filters, clients = table(), ClientTable(Outbox())
    filters.register("G2", [sql("a > 3", 5)], NOW)
    filters.tend(clients.subscription, NOW + 10)
    filters.register("G2", [sql("a > 3", 5)], NOW + 20)
    known = filters.get("T1", "G2")
    assert known is not None
    assert not known.is_dead


APACHE = (
    '{"filterDataByTopic":{"T1":{"groupFilterData":{"G2":{"bloomFilterData":{"bitNum":112,"bitPos":[111,20,41]},'
    f'"bornTime":{NOW - 90_000},"clientVersion":7,"consumerGroup":"G2","dead":false,"deadTime":0,'
    '"expression":"a > 3 AND b = \'x\'","expressionType":"SQL92","topic":"T1"}},"topic":"T1"}}}'
)


def test_a_file_of_apache_is_taken_over_and_written_as_it_was() -> None:
    filters = table()
    filters.load_text(APACHE)
    known = filters.get("T1", "G2")
    assert known is not None
    assert known.data.dead_time == NOW - 30_000  # nobody is here yet
    assert known.compiled is not None
    assert known.compiled.matches(b"a\x014\x02b\x01x\x02")
    written = parse(filters.snapshot()())
    expected = parse(APACHE)
    row = expected["filterDataByTopic"]["T1"]["groupFilterData"]["G2"]
    row.update(dead=True, deadTime=NOW - 30_000)
    assert written == expected


def test_the_death_of_a_loaded_filter_is_not_before_its_birth() -> None:
    filters = table()
    filters.load_text(APACHE.replace(str(NOW - 90_000), str(NOW - 10)))
    known = filters.get("T1", "G2")
    assert known is not None
    assert known.data.dead_time == NOW - 10
    assert known.is_dead


def test_a_file_made_for_other_bits_counts_for_nothing(caplog: pytest.LogCaptureFixture) -> None:
    for settings in ({"expect_consumer_num_use_filter": 64}, {"max_error_rate_of_bloom_filter": 10}):
        filters = table(**settings)
        with caplog.at_level(logging.WARNING):
            filters.load_text(APACHE)
        assert len(filters) == 0
        assert "other options of its bits" in caplog.text


def test_an_expression_of_a_file_that_cannot_be_read_lets_everything_pass() -> None:
    filters = table()
    filters.load_text(APACHE.replace("a > 3 AND", "a > >"))
    known = filters.get("T1", "G2")
    assert known is not None
    assert filters.wanted(known) is None


def test_bits_are_made_for_every_filter_of_the_topic_by_an_option() -> None:
    filters = table(enable_calc_filter_bit_map=True)
    filters.register("G2", [sql("a > 3")], NOW)
    filters.register("G3", [sql("a < 3")], NOW)
    filters.register("G4", [sql("a < 'x'", topic="T1"), sql("TRUE", topic="T2")], NOW)
    # The bytes that Apache's broker writes for these two messages and groups.
    assert filters.bit_map("T1", b"a\x015\x02").hex() == "0000100000020000000000000080"
    assert filters.bit_map("T1", b"a\x011\x02").hex() == "0040000000000000000000010008"
    assert filters.bit_map("T3", b"a\x011\x02") == b""
    off = table()
    off.register("G2", [sql("a > 3")], NOW)
    assert off.bit_map("T1", b"a\x015\x02") == b""


def test_bits_are_looked_at_for_messages_stored_after_the_filter_came() -> None:
    filters = table(enable_calc_filter_bit_map=True)
    filters.register("G2", [sql("a > 3")], NOW)
    known = filters.get("T1", "G2")
    assert known is not None
    wanted = filters.wanted(known)
    assert wanted is not None
    yes, no = filters.bit_map("T1", b"a\x015\x02"), filters.bit_map("T1", b"a\x011\x02")
    assert wanted.by_extension(ExtensionUnit(0, NOW + 1, yes))
    assert not wanted.by_extension(ExtensionUnit(0, NOW + 1, no))
    assert wanted.by_extension(ExtensionUnit(0, NOW, no))
    assert wanted.by_extension(ExtensionUnit(0, NOW + 1, b""))
    assert wanted.by_extension(ExtensionUnit(0, NOW + 1, bytes(8)))  # of another size: of other options
    from_request = filters.of_request("T1", "a > 3", "SQL92")
    assert isinstance(from_request, Wanted)
    assert from_request.by_extension(ExtensionUnit(0, NOW + 1, no))


def test_there_is_an_end_to_the_filters_of_a_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FILTERS_PER_TOPIC", 3)
    filters = table()
    for number in range(5):
        filters.register(f"G{number}", [sql("a > 3"), sql("a > 3", topic="T2")], NOW)
    assert sorted(known.data.consumer_group for known in filters if known.data.topic == "T1") == [
        "G0",
        "G1",
        "G2",
    ]
    clients = ClientTable(Outbox())
    filters.tend(clients.subscription, NOW + 10)
    filters.register("G1", [sql("a > 3")], NOW + 20)
    filters.register("G9", [sql("a > 3")], NOW + 20)
    left = {known.data.consumer_group for known in filters if known.data.topic == "T1"}
    assert {"G1", "G9"} < left
    assert len(left) == 3


def test_there_is_an_end_to_all_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FILTERS", 2)
    filters = table()
    for number in range(4):
        filters.register("G", [sql("a > 3", topic=f"T{number}")], NOW)
    assert len(filters) == 2
    filters.load_text(APACHE)
    assert len(filters) == 1


def test_retries_are_filtered_by_an_option() -> None:
    off = table()
    assert off.of_retries("%RETRY%G2") is None
    filters = table(filter_support_retry=True)
    filters.register("G2", [sql("a > 3")], NOW)
    assert filters.of_retries("T1") is None
    wanted = filters.of_retries("%RETRY%G2")
    assert wanted is not None
    assert wanted.matches(b"RETRY_TOPIC\x01T1\x02a\x015\x02")
    assert not wanted.matches(b"RETRY_TOPIC\x01T1\x02a\x011\x02")
    assert wanted.matches(b"RETRY_TOPIC\x01T2\x02a\x011\x02")
    assert wanted.matches(b"a\x011\x02")
