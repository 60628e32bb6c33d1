"""Options of a store: the values of its rows, with the folder as a path."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from orbitmq.protocol.delay_levels import DEFAULT_DELAY_LEVELS

QUEUE_UNIT_BYTES = 20


@dataclass(slots=True, kw_only=True)
class StoreOptions:
    """One field per option that the store reads, under its property name in snake case; see `option_rows`."""

    root: Path
    """storePathRootDir, the data folder."""

    mapped_file_size_commit_log: int = 1 << 30
    mapped_file_size_consume_queue: int = 6_000_000
    max_hash_slot_num: int = 5_000_000
    max_index_num: int = 20_000_000
    message_index_enable: bool = True
    index_file_write_enable: bool = True
    index_file_read_enable: bool = True

    flush_disk_type: str = "ASYNC_FLUSH"
    flush_interval_commit_log: int = 500
    flush_commit_log_least_pages: int = 4
    flush_commit_log_thorough_interval: int = 10_000
    flush_interval_consume_queue: int = 1000
    flush_consume_queue_least_pages: int = 2
    flush_consume_queue_thorough_interval: int = 60_000
    check_crc_on_recover: bool = True
    force_verify_prop_crc: bool = False
    commit_log_recover_max_num: int = 10

    file_reserved_time: int = 72
    delete_when: str = "04"
    disk_max_used_space_ratio: int = 75
    disk_space_clean_forcibly_ratio: int = 85
    disk_space_warning_level_ratio: int = 90
    clean_file_forcibly_enable: bool = True
    clean_resource_interval: int = 10_000
    delete_file_batch_max: int = 10
    delete_commit_log_files_interval: int = 100

    os_page_cache_busy_time_out_mills: int = 1000

    max_message_size: int = 4 << 20
    max_topic_length: int = 127
    auto_message_version_on_topic_len: bool = True
    enabled_append_prop_crc: bool = False
    max_msgs_num_batch: int = 64
    max_filter_message_size: int = 16_000
    travel_cq_file_num_when_get_message: int = 1
    max_transfer_bytes_on_message_in_memory: int = 256 * 1024
    max_transfer_count_on_message_in_memory: int = 32
    max_transfer_bytes_on_message_in_disk: int = 64 * 1024
    max_transfer_count_on_message_in_disk: int = 8
    access_message_in_memory_max_ratio: int = 40
    enable_consume_queue_ext: bool = False
    mapped_file_size_consume_queue_ext: int = 50_331_648
    message_delay_level: str = DEFAULT_DELAY_LEVELS

    timer_wheel_enable: bool = True
    timer_precision_ms: int = 1000
    timer_flush_interval_ms: int = 1000
    mapped_file_size_timer_log: int = 100 << 20

    def __post_init__(self) -> None:
        self.root = Path(self.root)
        # Whole units only; Apache rounds up as well.
        units = -(-self.mapped_file_size_consume_queue // QUEUE_UNIT_BYTES)
        self.mapped_file_size_consume_queue = units * QUEUE_UNIT_BYTES

    @property
    def sync_flush(self) -> bool:
        """True if a message counts as stored only once it is on the disk."""
        return self.flush_disk_type == "SYNC_FLUSH"

    @classmethod
    def from_settings(cls, settings: Any, root: Path | None = None) -> StoreOptions:
        """The options out of loaded settings; `root` in place of their storePathRootDir."""
        values = {
            declared.name: getattr(settings, declared.name)
            for declared in fields(cls)
            if declared.name != "root" and hasattr(settings, declared.name)
        }
        return cls(root=root or Path(settings.store_path_root_dir), **values)
