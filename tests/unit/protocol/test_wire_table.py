from orbitmq.protocol.requests.every import REQUESTS, UNUSED
from orbitmq.protocol.wire_table import markdown


def test_every_code_has_a_row_or_is_unused() -> None:
    text = markdown()
    for code, request in REQUESTS.items():
        assert f"\n| {code} | {request.NAME} |" in text
    for code, name in UNUSED.items():
        assert f"{code} {name}" in text


def test_a_row() -> None:
    row = next(line for line in markdown().splitlines() if line.startswith("| 14 |"))
    assert row == (
        "| 14 | QUERY_CONSUMER_OFFSET | broker | `consumerGroup`, `topic`, `queueId` int, "
        "`setZeroIfNotFound` bool?, `bname`?, `lo` bool? |  | `offset` long |  |"
    )
