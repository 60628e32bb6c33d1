from pathlib import Path
from types import SimpleNamespace

import pytest

from orbitmq.store import StoreOptions
from orbitmq.store.options import delays_ms


def test_queue_files_hold_whole_units() -> None:
    assert (
        StoreOptions(root=Path(), mapped_file_size_consume_queue=1001).mapped_file_size_consume_queue == 1020
    )


def test_options_are_taken_from_settings_by_name() -> None:
    settings = SimpleNamespace(store_path_root_dir="/data", flush_disk_type="SYNC_FLUSH", max_message_size=7)
    options = StoreOptions.from_settings(settings)
    assert options.root == Path("/data")
    assert options.sync_flush
    assert options.max_message_size == 7
    assert StoreOptions.from_settings(settings, Path("/other")).root == Path("/other")


def test_delays_have_units() -> None:
    assert delays_ms("1s 2m  3h 1d") == (1000, 120_000, 10_800_000, 86_400_000)


@pytest.mark.parametrize("text", ["1", "s", "1x", "-1s", "1.5s"])
def test_other_delays_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="messageDelayLevel"):
        delays_ms(text)
