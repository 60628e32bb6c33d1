from collections.abc import Iterator

import httpx
import pytest

from orbitmq.testing import LocalBroker
from tests.kit.running_console import RunningConsole


@pytest.fixture(scope="package")
def console_broker() -> Iterator[LocalBroker]:
    """One broker for all tests of the console's API: topics and groups have to be a test's own."""
    with LocalBroker() as broker:
        yield broker


@pytest.fixture(scope="package")
def console(
    console_broker: LocalBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningConsole]:
    """A console without users, over the cluster `here` and over `gone`, whose name server does not answer."""
    folder = tmp_path_factory.mktemp("console")
    with RunningConsole(folder, here=console_broker.namesrv, gone="127.0.0.1:1") as running:
        yield running


@pytest.fixture
def api(console: RunningConsole) -> httpx.Client:
    """A client of the shared console."""
    return console.client()
