import pytest

from orbitmq.client.core.logs import logger_of


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("pull of MessageQueue(T)", "orbitmq.client.pulls"),
        ("heartbeat to broker:1", "orbitmq.client.heartbeats"),
        ("handler", "orbitmq.client.handlers"),
        ("end of transaction 7", "orbitmq.client.transactions"),
        ("something new", "orbitmq.client"),
    ],
)
def test_the_first_word_of_a_subject_chooses_its_logger(subject: str, name: str) -> None:
    assert logger_of(subject).name == name
