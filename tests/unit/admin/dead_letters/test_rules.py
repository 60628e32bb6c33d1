import pytest

from orbitmq.admin.dead_letters.rules import marks, origin_of, own_properties, replays_of, target_of


def test_a_letter_goes_to_its_first_topic_or_to_the_group_that_failed() -> None:
    assert target_of("orders", "billing", "origin") == "orders"
    assert target_of("orders", "billing", "retry") == "%RETRY%billing"
    assert target_of(None, "billing", "origin") is None


def test_the_first_topic_is_the_one_that_clients_brokers_and_proxies_name() -> None:
    assert origin_of({"RETRY_TOPIC": "orders"}) == "orders"
    assert origin_of({"DLQ_ORIGIN_TOPIC": "orders"}) == "orders"
    assert origin_of({"RETRY_TOPIC": "%RETRY%g"}) is None
    assert origin_of({}) is None


@pytest.mark.parametrize(("text", "count"), [("2", 2), ("-1", 0), ("x", 0), ("٣", 0), ("9" * 50, 0), ("", 0)])
def test_a_replay_count_that_is_no_number_counts_as_none(text: str, count: int) -> None:
    assert replays_of({"orbitmq.replays": text}) == count


def test_the_reasons_of_a_failure_are_no_properties_of_the_user() -> None:
    marks = {"exception": "E", "exceptionText": "no price", "exceptionConsumer": "c", "exceptionAttempt": "1"}
    assert own_properties({"colour": "blue", **marks, "UNIQ_KEY": "U"}) == {"colour": "blue"}
    assert own_properties({"exception": "mine"}) == {"exception": "mine"}
    marked = {
        "orbitmq.replays": "1",
        "orbitmq.redriven": "A",
        "orbitmq.firstMessageId": "B",
        "orbitmq.write": "C",
    }
    assert own_properties({"colour": "blue", **marked, "__RMQ.TRANSIENT.x": "y"}) == {"colour": "blue"}


def test_the_first_id_stays_over_many_redrives() -> None:
    first = marks({"UNIQ_KEY": "FIRST"}, "PLACE", "orders")
    assert first == {
        "orbitmq.redriven": "PLACE",
        "orbitmq.replays": "1",
        "orbitmq.firstMessageId": "FIRST",
    }
    second = marks({"UNIQ_KEY": "SECOND", **first}, "PLACE2", "orders")
    assert (second["orbitmq.replays"], second["orbitmq.firstMessageId"]) == ("2", "FIRST")


def test_a_retry_names_the_first_topic_and_the_message_that_a_proxy_or_a_consumer_noted() -> None:
    sent_back = marks({"RETRY_TOPIC": "orders", "ORIGIN_MESSAGE_ID": "O"}, "PLACE", "%RETRY%billing")
    by_proxy = marks({"DLQ_ORIGIN_TOPIC": "orders", "DLQ_ORIGIN_MESSAGE_ID": "P"}, "PLACE", "%RETRY%billing")
    assert [(one["RETRY_TOPIC"], one["ORIGIN_MESSAGE_ID"]) for one in (sent_back, by_proxy)] == [
        ("orders", "O"),
        ("orders", "P"),
    ]
