import logging
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from orbitmq.options import InvalidValue
from orbitmq.options.reporting import ReportingSettings, parse_log_level
from orbitmq.server.lifecycle.log_levels import LogLevels


@dataclass
class Settings:
    log_level: str = "info"


@pytest.fixture(autouse=True)
def levels_as_before() -> Iterator[None]:
    root = logging.getLogger()
    before = root.level
    yield
    root.setLevel(before)
    for name in ("orbitmq.store", "orbitmq.net"):
        logging.getLogger(name).setLevel(logging.NOTSET)


def test_levels_follow_the_option_while_the_process_runs() -> None:
    settings = Settings("warning")
    levels = LogLevels([settings])
    levels.look()
    assert logging.getLogger().level == logging.WARNING
    settings.log_level = "error,orbitmq.store=debug"
    levels.look()
    assert logging.getLogger("orbitmq.store.store").isEnabledFor(logging.DEBUG)
    assert not logging.getLogger("orbitmq.net").isEnabledFor(logging.WARNING)
    settings.log_level = "info"
    levels.look()
    assert not logging.getLogger("orbitmq.store.store").isEnabledFor(logging.DEBUG)


def test_a_change_of_one_server_counts_for_the_process() -> None:
    broker, namesrv = Settings(), Settings()
    levels = LogLevels([broker, namesrv])
    levels.look()
    broker.log_level = "debug"
    levels.look()
    levels.look()
    assert logging.getLogger().level == logging.DEBUG


@pytest.mark.parametrize("text", ["", "loud", "info,orbitmq", "a b=debug", "=x", "info;debug"])
def test_what_is_no_level_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue, match="debug, info, warning, error"):
        ReportingSettings(log_level=text).complete()


def test_a_part_alone_leaves_the_rest_at_info() -> None:
    assert parse_log_level("orbitmq.net = Debug") == {"orbitmq.net": 10, "": 20}
