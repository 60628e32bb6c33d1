import logging

import pytest

from orbitmq.broker.stats.passed_over import AGAIN, DEAD_LETTER, PassedOver


def test_each_reason_is_said_once_and_every_item_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    passed = PassedOver()
    with caplog.at_level(logging.WARNING):
        for number in range(5):
            passed.note("timers", DEAD_LETTER, f"message {number}", "PROPERTIES_SIZE_EXCEEDED")
        passed.note("timers", AGAIN, "message 9", "PROPERTIES_SIZE_EXCEEDED")
    assert passed.counts == {("timers", DEAD_LETTER): 5, ("timers", AGAIN): 1}
    assert [record.args[1] for record in caplog.records if isinstance(record.args, tuple)] == [
        "message 0",
        "message 9",
    ]
