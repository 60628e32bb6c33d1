"""Apache's `mqadmin` 5.4.0 against OrbitMQ: one test per case of the judge."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.peers import suites
from tests.peers.suites import Server, SuiteRun

NOT_YET = {
    "mq_cloneGroupOffset": "cloning a group's offsets",
    "mq_setConsumeMode": "POP consumption",
    "mq_queryCq": "looking into consume queues over the network",
    "mq_export": "exporting configuration and metrics",
    "mq_haStatus_cleaning": "replication, and cleaning on demand",
    "mq_resetOffsetByTime": "resetting offsets",
    "mq_brokerConfig": "changing the broker's configuration while it runs",
    "mq_consumerConnection": "running info of consumers",
}

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def mqadmin(request: pytest.FixtureRequest, judged: Server) -> Iterator[SuiteRun]:
    """The suite, running the cases that were asked for."""
    with suites.running("mqadmin", suites.chosen(request.session, "test_mqadmin"), judged) as run:
        yield run


@pytest.mark.parametrize("case", suites.parameters("mqadmin", NOT_YET))
def test_mqadmin(case: str, mqadmin: SuiteRun) -> None:
    mqadmin.expect(case)
