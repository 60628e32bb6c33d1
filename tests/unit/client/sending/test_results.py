from __future__ import annotations

from orbitmq.client.core.message import SendStatus
from orbitmq.client.sending.results import batch_results, single_result
from orbitmq.protocol.requests.send import SendReply
from tests.kit.client_messages import QUEUE


def test_a_single_result() -> None:
    reply = SendReply("AB", 0, 7, "tx", None, "handle", code=10, extra={"MSG_REGION": "r"})
    result = single_result(reply, QUEUE, "U")
    assert result.status is SendStatus.FLUSH_DISK_TIMEOUT
    assert (result.message_id, result.offset_message_id, result.queue_offset) == ("U", "AB", 7)
    assert (result.queue, result.region_id, result.recall_handle) == (QUEUE, "r", "handle")


def test_the_broker_has_the_last_word_on_the_queue() -> None:
    assert single_result(SendReply("AB", 3, 7), QUEUE, "U").queue.queue_id == 3


def test_each_message_of_a_batch_has_its_own_place() -> None:
    results = batch_results(SendReply("A,B,C", 0, 7), QUEUE, ["1", "2", "3"])
    assert [(r.message_id, r.offset_message_id, r.queue_offset) for r in results] == [
        ("1", "A", 7),
        ("2", "B", 8),
        ("3", "C", 9),
    ]


def test_a_batch_stored_as_one_record_has_one_place_in_the_log() -> None:
    results = batch_results(SendReply("A", 0, 7), QUEUE, ["1", "2"])
    assert [(r.offset_message_id, r.queue_offset) for r in results] == [("A", 7), ("A", 8)]
