"""The rows of Apache's MessageStoreConfig that code reads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from orbitmq.options import (
    InvalidValue,
    Long,
    RefusedValue,
    Settings,
    Status,
    option,
)
from orbitmq.protocol.delay_levels import DEFAULT_DELAY_LEVELS, delays_ms

_OWNER = "MessageStoreConfig"


@dataclass(kw_only=True)
class StoreSettings(Settings, owner="MessageStoreConfig"):
    """Place, retention and durability of messages."""

    # Places and sizes.
    store_path_root_dir: str = option(
        "~/store",
        "The data folder: commit log, consume queues, index and tables.",
        apache_default="$HOME/store",
    )
    store_path_commit_log: str | None = option(
        None,
        "Folder of the commit log: always commitlog in the data folder.",
        apache_default="storePathRootDir/commitlog",
        status=Status.REFUSED,
        reason="the commit log has to be in the folder commitlog of storePathRootDir",
    )
    mapped_file_size_commit_log: int = option(
        1 << 30,
        "Size of a segment of the commit log. The segments of one folder all have the same size.",
        unit="bytes",
        minimum=64 * 1024,
    )
    mapped_file_size_consume_queue: int = option(
        6_000_000,
        "Size of a file of a consume queue, rounded up to whole units of 20 bytes.",
        unit="bytes",
        minimum=20,
    )
    max_hash_slot_num: int = option(5_000_000, "Slots of an index file.", minimum=1)
    max_index_num: int = option(20_000_000, "Entries of an index file.", minimum=2)
    message_index_enable: bool = option(True, "Make messages searchable by their keys.")

    index_file_write_enable: bool = option(True, "Write keys into index files.")
    index_file_read_enable: bool = option(True, "Look up keys in index files.")

    # Light message queues.
    enable_lmq: bool = option(
        False, "With enableMultiDispatch: serve light message queues, and so lite topics."
    )
    enable_multi_dispatch: bool = option(
        False, "With enableLmq: put messages into the light message queues that they name."
    )
    enable_lmq_quota: bool = option(
        False, "Refuse messages that would make one light message queue too many.", mutable=True
    )
    max_lmq_consume_queue_num: int = option(
        20_000, "Maximum of light message queues, with enableLmqQuota.", mutable=True, minimum=1
    )

    # Safety.
    flush_disk_type: str = option(
        "ASYNC_FLUSH",
        "SYNC_FLUSH: a message is acknowledged, and visible to consumers, once it is on the disk.",
        java_type="FlushDiskType",
        choices=("ASYNC_FLUSH", "SYNC_FLUSH"),
    )
    sync_flush_timeout: int = option(
        5000,
        "Timeout of a send that waits for the disk under SYNC_FLUSH.",
        unit="ms",
        mutable=True,
        minimum=1,
    )
    flush_interval_commit_log: int = option(
        500, "Interval of flushes of the commit log under ASYNC_FLUSH.", unit="ms", minimum=1
    )
    flush_commit_log_least_pages: int = option(
        4, "Minimum of dirty pages of 4 KiB for a flush.", mutable=True, unit="pages", minimum=0
    )
    flush_commit_log_thorough_interval: int = option(
        10_000,
        "Interval of flushes of the commit log regardless of the number of dirty pages.",
        mutable=True,
        unit="ms",
        minimum=1,
    )
    flush_interval_consume_queue: int = option(
        1000, "Interval at which consume queues are written.", unit="ms", minimum=1
    )
    flush_consume_queue_least_pages: int = option(
        2,
        "Dirty pages of 4 KiB after which a consume queue is flushed ahead of its interval; 0: never.",
        unit="pages",
        minimum=0,
    )
    flush_consume_queue_thorough_interval: int = option(
        60_000,
        "Interval at which all consume queues, and then the checkpoint, are flushed to the "
        "disk; sooner if the log has grown by 128 MiB.",
        mutable=True,
        unit="ms",
        minimum=1,
    )
    check_crc_on_recover: bool = option(
        True, "Verify the checksums of bodies during recovery.", name="checkCRCOnRecover"
    )
    os_page_cache_busy_time_out_mills: Long = option(
        1000,
        "If a flush of the commit log takes longer than this while a tenth of the machine's "
        "memory is dirty, sends are refused with SYSTEM_BUSY.",
        unit="ms",
        minimum=1,
    )
    enabled_append_prop_crc: bool = option(
        False, "Store a checksum of the whole record at its end.", name="enabledAppendPropCRC"
    )
    force_verify_prop_crc: bool = option(
        False, "Verify that checksum during recovery, in records that have it.", name="forceVerifyPropCRC"
    )
    commit_log_recover_max_num: int = option(
        10, "Maximum of segments that recovery after a crash goes back.", unit="segments", minimum=1
    )

    # For how long.
    file_reserved_time: int = option(
        72, "Retention of a segment after its last write.", mutable=True, unit="h", minimum=0
    )
    delete_when: str = option(
        "04", "Hours of the day, separated by `;`, at which expired segments are deleted.", mutable=True
    )
    disk_max_used_space_ratio: int = option(
        75,
        "Disk use above which expired segments are deleted at once.",
        mutable=True,
        unit="%",
        minimum=10,
        maximum=99,
    )
    disk_space_clean_forcibly_ratio: int = option(
        85,
        "Disk use above which segments are deleted before they expire.",
        mutable=True,
        unit="%",
        minimum=30,
        maximum=99,
    )
    disk_space_warning_level_ratio: int = option(
        90, "Disk use above which sends are refused.", mutable=True, unit="%", minimum=35, maximum=99
    )
    clean_file_forcibly_enable: bool = option(
        True, "Delete segments before they expire if the disk is full.", mutable=True
    )
    clean_resource_interval: int = option(
        10_000, "Interval of checks for segments to delete.", unit="ms", minimum=1
    )
    delete_file_batch_max: int = option(
        10, "Segments deleted in one round.", mutable=True, unit="segments", minimum=1
    )
    delete_commit_log_files_interval: int = option(
        100, "Pause between the deletion of two segments.", mutable=True, unit="ms", minimum=0
    )

    # Limits.
    max_message_size: int = option(
        4 << 20, "The largest body of a message.", unit="bytes", mutable=True, minimum=1, maximum=128 << 20
    )
    max_topic_length: int = option(127, "The longest name of a topic.", mutable=True, unit="bytes")
    auto_message_version_on_topic_len: bool = option(
        True, "Store topic names longer than 127 bytes in version 2 of the record format."
    )
    max_msgs_num_batch: int = option(
        64, "Maximum of messages in the answer to a query by key.", mutable=True, minimum=1
    )
    default_query_max_num: int = option(
        32, "Maximum of messages in the answer to a query by unique key.", mutable=True, minimum=1
    )
    max_filter_message_size: int = option(
        16_000,
        "Maximum of consume-queue bytes that one pull scans, unless it asks for more messages.",
        mutable=True,
        unit="bytes",
        minimum=20,
    )
    enable_consume_queue_ext: bool = option(
        False,
        "Keep extension files beside each consume queue. With enableCalcFilterBitMap they hold "
        "the filters that match a message. The files are compatible with Apache's broker.",
    )
    mapped_file_size_consume_queue_ext: int = option(
        50_331_648, "Size of a consume queue extension file.", unit="bytes", minimum=65_536
    )
    travel_cq_file_num_when_get_message: int = option(
        1, "Maximum of consume queue files that one pull scans.", mutable=True, unit="files", minimum=1
    )
    max_transfer_bytes_on_message_in_memory: int = option(
        256 * 1024, "Maximum of bytes in one pull of recent messages.", mutable=True, unit="bytes", minimum=1
    )
    max_transfer_count_on_message_in_memory: int = option(
        32, "Maximum of messages in one pull of recent messages.", mutable=True, minimum=1
    )
    max_transfer_bytes_on_message_in_disk: int = option(
        64 * 1024, "Maximum of bytes in one pull of old messages.", mutable=True, unit="bytes", minimum=1
    )
    max_transfer_count_on_message_in_disk: int = option(
        8, "Maximum of messages in one pull of old messages.", mutable=True, minimum=1
    )
    access_message_in_memory_max_ratio: int = option(
        40,
        "Size of the end of the log that counts as recent, as a share of the machine's memory.",
        unit="%",
        minimum=0,
        maximum=100,
    )

    # Delayed messages.
    message_delay_level: str = option(
        DEFAULT_DELAY_LEVELS,
        "Delays of levels 1, 2, 3 ...: numbers with s, m, h or d, separated by blanks.",
    )
    flush_delay_offset_interval: Long = option(
        10_000, "Interval at which the progress of delayed delivery is saved.", unit="ms", minimum=1
    )
    timer_wheel_enable: bool = option(
        True, "Accept and deliver timer messages. While it is off, waiting messages are kept."
    )
    timer_precision_ms: int = option(
        1000,
        "Width of a slot of the timer wheel. Due times keep their precision of one millisecond.",
        unit="ms",
        minimum=10,
        maximum=60_000,
    )
    timer_max_delay_sec: int = option(
        259_200, "Maximum delay of a timer message; up to 68 years.", unit="s", mutable=True, minimum=0
    )
    timer_roll_window_slot: int = option(
        172_800,
        "Messages with a longer delay are stored again after this time, or after half of the "
        "retention of the commit log.",
        unit="slots",
        mutable=True,
    )
    timer_congest_num_each_slot: int = option(
        2_147_483_647,
        "Messages in a slot above which sends for it are refused at random, more often the "
        "fuller it is; all are refused at twice the number.",
        mutable=True,
        minimum=1,
    )
    timer_stop_enqueue: bool = option(
        False, "Do not move timer messages into the wheel; they are stored and wait.", mutable=True
    )
    timer_stop_dequeue: bool = option(
        False, "Do not deliver timer messages until this is switched off.", mutable=True
    )
    timer_flush_interval_ms: int = option(
        1000, "Interval of flushes of timer log, wheel and timer checkpoint.", unit="ms", minimum=1
    )
    mapped_file_size_timer_log: int = option(
        104_857_600, "Size of a segment of the timer log.", unit="bytes", minimum=4096
    )
    append_topic_for_timer_delete_key: bool = option(
        False, "Identify the message of a recall by topic and id, not by id alone."
    )

    def complete(self) -> None:
        super().complete()
        self.store_path_root_dir = str(Path(self.store_path_root_dir).expanduser())
        self._check_texts()
        given = self.store_path_commit_log
        if given and Path(given) != Path(self.store_path_root_dir) / "commitlog":
            raise RefusedValue(
                "storePathCommitLog",
                given,
                "the commit log has to be in the folder commitlog of storePathRootDir",
                self.sources.get("storePathCommitLog", "settings"),
            )

    def _check_texts(self) -> None:
        try:
            delays_ms(self.message_delay_level)
        except ValueError:
            raise InvalidValue(
                "messageDelayLevel",
                self.message_delay_level,
                "numbers with s, m, h or d, blanks between",
                self.sources.get("messageDelayLevel", "settings"),
            ) from None
        hours = self.delete_when.split(";")
        if not all(hour.isdigit() and int(hour) < 24 for hour in hours):
            raise InvalidValue(
                "deleteWhen",
                self.delete_when,
                "hours from 00 to 23, `;` between",
                self.sources.get("deleteWhen", "settings"),
            )
