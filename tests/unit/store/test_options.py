from pathlib import Path
from types import SimpleNamespace

from orbitmq.store import StoreOptions


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
