"""The rows of Apache's MessageStoreConfig: a field for each that code reads, a list for all others."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from orbitmq.options import (
    InvalidValue,
    Option,
    RefusedValue,
    Settings,
    Status,
    option,
    refused,
    without_effect,
)
from orbitmq.store.options import delays_ms

_OWNER = "MessageStoreConfig"


@dataclass(kw_only=True)
class StoreSettings(Settings):
    """Where messages are kept, for how long, and how surely."""

    # Places and sizes.
    store_path_root_dir: str = option(
        "storePathRootDir",
        "String",
        "~/store",
        "The data folder: commit log, consume queues, index and tables.",
        owner=_OWNER,
        apache_default="$HOME/store",
    )
    store_path_commit_log: str | None = option(
        "storePathCommitLog",
        "String",
        None,
        "Where the commit log is: the folder commitlog of the data folder.",
        owner=_OWNER,
        apache_default="storePathRootDir/commitlog",
        status=Status.REFUSED,
        reason="the commit log has to be in the folder commitlog of storePathRootDir",
    )
    mapped_file_size_commit_log: int = option(
        "mappedFileSizeCommitLog",
        "int",
        1 << 30,
        "Size of a segment of the commit log. The segments of one folder all have the same size.",
        owner=_OWNER,
        unit="bytes",
        minimum=64 * 1024,
    )
    mapped_file_size_consume_queue: int = option(
        "mappedFileSizeConsumeQueue",
        "int",
        6_000_000,
        "Size of a file of a consume queue, rounded up to whole units of 20 bytes.",
        owner=_OWNER,
        unit="bytes",
        minimum=20,
    )
    max_hash_slot_num: int = option(
        "maxHashSlotNum", "int", 5_000_000, "Slots of an index file.", owner=_OWNER, minimum=1
    )
    max_index_num: int = option(
        "maxIndexNum", "int", 20_000_000, "Entries of an index file.", owner=_OWNER, minimum=2
    )
    message_index_enable: bool = option(
        "messageIndexEnable", "boolean", True, "Whether messages can be found by their keys.", owner=_OWNER
    )

    index_file_write_enable: bool = option(
        "indexFileWriteEnable", "boolean", True, "Whether keys are written into index files.", owner=_OWNER
    )
    index_file_read_enable: bool = option(
        "indexFileReadEnable", "boolean", True, "Whether keys are looked up in index files.", owner=_OWNER
    )

    # How surely.
    flush_disk_type: str = option(
        "flushDiskType",
        "FlushDiskType",
        "ASYNC_FLUSH",
        "SYNC_FLUSH: a send is answered, and seen by consumers, once it is on the disk.",
        owner=_OWNER,
        choices=("ASYNC_FLUSH", "SYNC_FLUSH"),
    )
    sync_flush_timeout: int = option(
        "syncFlushTimeout",
        "int",
        5000,
        "How long a send waits for the disk under SYNC_FLUSH.",
        owner=_OWNER,
        unit="ms",
        mutable=True,
        minimum=1,
    )
    flush_interval_commit_log: int = option(
        "flushIntervalCommitLog",
        "int",
        500,
        "How often the commit log is flushed under ASYNC_FLUSH.",
        owner=_OWNER,
        unit="ms",
        minimum=1,
    )
    flush_commit_log_least_pages: int = option(
        "flushCommitLogLeastPages",
        "int",
        4,
        "Pages of 4 KiB that have to wait before a flush is made for them.",
        owner=_OWNER,
        mutable=True,
        unit="pages",
        minimum=0,
    )
    flush_commit_log_thorough_interval: int = option(
        "flushCommitLogThoroughInterval",
        "int",
        10_000,
        "How often the commit log is flushed whatever waits.",
        owner=_OWNER,
        mutable=True,
        unit="ms",
        minimum=1,
    )
    flush_interval_consume_queue: int = option(
        "flushIntervalConsumeQueue",
        "int",
        1000,
        "How often consume queues are written.",
        owner=_OWNER,
        unit="ms",
        minimum=1,
    )
    flush_consume_queue_least_pages: int = option(
        "flushConsumeQueueLeastPages",
        "int",
        2,
        "Pages of 4 KiB after which a consume queue is flushed to the disk before its time; 0: never.",
        owner=_OWNER,
        unit="pages",
        minimum=0,
    )
    flush_consume_queue_thorough_interval: int = option(
        "flushConsumeQueueThoroughInterval",
        "int",
        60_000,
        "How often all consume queues are flushed to the disk, and the checkpoint after them; sooner where "
        "the log has grown by 128 MiB.",
        owner=_OWNER,
        mutable=True,
        unit="ms",
        minimum=1,
    )
    check_crc_on_recover: bool = option(
        "checkCRCOnRecover", "boolean", True, "Whether recovery checks the bodies it reads.", owner=_OWNER
    )
    os_page_cache_busy_time_out_mills: int = option(
        "osPageCacheBusyTimeOutMills",
        "long",
        1000,
        "A flush of the commit log that takes longer, while a tenth of the machine's memory waits for it, "
        "makes senders go elsewhere (SYSTEM_BUSY).",
        unit="ms",
        owner=_OWNER,
        minimum=1,
    )
    enabled_append_prop_crc: bool = option(
        "enabledAppendPropCRC",
        "boolean",
        False,
        "Whether records end with a check sum over the whole of them.",
        owner=_OWNER,
    )
    force_verify_prop_crc: bool = option(
        "forceVerifyPropCRC",
        "boolean",
        False,
        "Whether recovery looks at that check sum, in records that have it.",
        owner=_OWNER,
    )
    commit_log_recover_max_num: int = option(
        "commitLogRecoverMaxNum",
        "int",
        10,
        "Segments that recovery after a crash goes back at most.",
        owner=_OWNER,
        unit="segments",
        minimum=1,
    )

    # For how long.
    file_reserved_time: int = option(
        "fileReservedTime",
        "int",
        72,
        "How long a segment is kept after it was last written.",
        owner=_OWNER,
        mutable=True,
        unit="h",
        minimum=0,
    )
    delete_when: str = option(
        "deleteWhen",
        "String",
        "04",
        "Hours of the day, with `;` between, at which old segments go.",
        owner=_OWNER,
        mutable=True,
    )
    disk_max_used_space_ratio: int = option(
        "diskMaxUsedSpaceRatio",
        "int",
        75,
        "Disk use above which old segments go at once.",
        owner=_OWNER,
        mutable=True,
        unit="%",
        minimum=10,
        maximum=99,
    )
    disk_space_clean_forcibly_ratio: int = option(
        "diskSpaceCleanForciblyRatio",
        "int",
        85,
        "Disk use above which segments go before their time.",
        owner=_OWNER,
        mutable=True,
        unit="%",
        minimum=30,
        maximum=99,
    )
    disk_space_warning_level_ratio: int = option(
        "diskSpaceWarningLevelRatio",
        "int",
        90,
        "Disk use above which sends are refused.",
        owner=_OWNER,
        mutable=True,
        unit="%",
        minimum=35,
        maximum=99,
    )
    clean_file_forcibly_enable: bool = option(
        "cleanFileForciblyEnable",
        "boolean",
        True,
        "Whether a full disk makes segments go before their time.",
        owner=_OWNER,
        mutable=True,
    )
    clean_resource_interval: int = option(
        "cleanResourceInterval",
        "int",
        10_000,
        "How often the store looks for segments to delete.",
        owner=_OWNER,
        unit="ms",
        minimum=1,
    )
    delete_file_batch_max: int = option(
        "deleteFileBatchMax",
        "int",
        10,
        "Segments deleted in one round.",
        owner=_OWNER,
        mutable=True,
        unit="segments",
        minimum=1,
    )
    delete_commit_log_files_interval: int = option(
        "deleteCommitLogFilesInterval",
        "int",
        100,
        "Pause between two segments that are deleted.",
        owner=_OWNER,
        mutable=True,
        unit="ms",
        minimum=0,
    )

    # Limits.
    max_message_size: int = option(
        "maxMessageSize",
        "int",
        4 << 20,
        "The largest body of a message.",
        owner=_OWNER,
        unit="bytes",
        mutable=True,
        minimum=1,
        maximum=128 << 20,
    )
    max_topic_length: int = option(
        "maxTopicLength", "int", 127, "The longest name of a topic.", owner=_OWNER, mutable=True, unit="bytes"
    )
    auto_message_version_on_topic_len: bool = option(
        "autoMessageVersionOnTopicLen",
        "boolean",
        True,
        "Store names of topics beyond 127 bytes in the second format of records.",
        owner=_OWNER,
    )
    max_msgs_num_batch: int = option(
        "maxMsgsNumBatch",
        "int",
        64,
        "Messages that a query by key gives at most.",
        owner=_OWNER,
        mutable=True,
        minimum=1,
    )
    default_query_max_num: int = option(
        "defaultQueryMaxNum",
        "int",
        32,
        "Messages that a query by unique key gives at most.",
        owner=_OWNER,
        mutable=True,
        minimum=1,
    )
    max_filter_message_size: int = option(
        "maxFilterMessageSize",
        "int",
        16_000,
        "Bytes of consume-queue units that one pull looks through at most, unless it asks for more messages.",
        owner=_OWNER,
        mutable=True,
        unit="bytes",
        minimum=20,
    )
    enable_consume_queue_ext: bool = option(
        "enableConsumeQueueExt",
        "boolean",
        False,
        "Keep more about each message beside its queue: with enableCalcFilterBitMap, which filters want it. "
        "Apache's broker reads and writes the same files.",
        owner=_OWNER,
    )
    mapped_file_size_consume_queue_ext: int = option(
        "mappedFileSizeConsumeQueueExt",
        "int",
        50_331_648,
        "Size of the files of these extensions.",
        owner=_OWNER,
        unit="bytes",
        minimum=65_536,
    )
    travel_cq_file_num_when_get_message: int = option(
        "travelCqFileNumWhenGetMessage",
        "int",
        1,
        "Files of a consume queue that one pull looks through at most.",
        owner=_OWNER,
        mutable=True,
        unit="files",
        minimum=1,
    )
    max_transfer_bytes_on_message_in_memory: int = option(
        "maxTransferBytesOnMessageInMemory",
        "int",
        256 * 1024,
        "Bytes of recent messages in one pull.",
        owner=_OWNER,
        mutable=True,
        unit="bytes",
        minimum=1,
    )
    max_transfer_count_on_message_in_memory: int = option(
        "maxTransferCountOnMessageInMemory",
        "int",
        32,
        "Recent messages in one pull.",
        owner=_OWNER,
        mutable=True,
        minimum=1,
    )
    max_transfer_bytes_on_message_in_disk: int = option(
        "maxTransferBytesOnMessageInDisk",
        "int",
        64 * 1024,
        "Bytes of old messages in one pull.",
        owner=_OWNER,
        mutable=True,
        unit="bytes",
        minimum=1,
    )
    max_transfer_count_on_message_in_disk: int = option(
        "maxTransferCountOnMessageInDisk",
        "int",
        8,
        "Old messages in one pull.",
        owner=_OWNER,
        mutable=True,
        minimum=1,
    )
    access_message_in_memory_max_ratio: int = option(
        "accessMessageInMemoryMaxRatio",
        "int",
        40,
        "Messages are recent within this share of the machine's memory from the end of the log.",
        owner=_OWNER,
        unit="%",
        minimum=1,
        maximum=100,
    )

    # Delayed messages.
    message_delay_level: str = option(
        "messageDelayLevel",
        "String",
        "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
        "The delays of levels 1, 2, 3 ...: numbers with s, m, h or d, blanks between.",
        owner=_OWNER,
    )
    flush_delay_offset_interval: int = option(
        "flushDelayOffsetInterval",
        "long",
        10_000,
        "How often it is saved how far delayed messages were delivered.",
        owner=_OWNER,
        unit="ms",
        minimum=1,
    )
    timer_wheel_enable: bool = option(
        "timerWheelEnable",
        "boolean",
        True,
        "Whether messages with a time are taken and delivered; what waits meanwhile is kept.",
        owner=_OWNER,
    )
    timer_precision_ms: int = option(
        "timerPrecisionMs",
        "int",
        1000,
        "The width of a slot of the timer wheel. Messages are due to the millisecond all the same.",
        owner=_OWNER,
        unit="ms",
        minimum=10,
        maximum=60_000,
    )
    timer_max_delay_sec: int = option(
        "timerMaxDelaySec",
        "int",
        259_200,
        "How far away the time of a message may be; up to 68 years.",
        owner=_OWNER,
        unit="s",
        mutable=True,
        minimum=0,
    )
    timer_roll_window_slot: int = option(
        "timerRollWindowSlot",
        "int",
        172_800,
        "Messages that are due further ahead are stored again when this is over, or half of what the commit "
        "log is kept for.",
        owner=_OWNER,
        unit="slots",
        mutable=True,
    )
    timer_congest_num_each_slot: int = option(
        "timerCongestNumEachSlot",
        "int",
        2_147_483_647,
        "Sends for a slot with more messages are refused, the more the fuller it is, all at twice as many.",
        owner=_OWNER,
        mutable=True,
        minimum=1,
    )
    timer_stop_enqueue: bool = option(
        "timerStopEnqueue",
        "boolean",
        False,
        "Takes no message with a time into the wheel; they are stored and wait.",
        owner=_OWNER,
        mutable=True,
    )
    timer_stop_dequeue: bool = option(
        "timerStopDequeue",
        "boolean",
        False,
        "Delivers no message with a time, until it is set back.",
        owner=_OWNER,
        mutable=True,
    )
    timer_flush_interval_ms: int = option(
        "timerFlushIntervalMs",
        "int",
        1000,
        "How often timer log, wheel and checkpoint are brought to the disk.",
        owner=_OWNER,
        unit="ms",
        minimum=1,
    )
    mapped_file_size_timer_log: int = option(
        "mappedFileSizeTimerLog",
        "int",
        104_857_600,
        "Size of a segment of the timer log.",
        owner=_OWNER,
        unit="bytes",
        minimum=4096,
    )
    append_topic_for_timer_delete_key: bool = option(
        "appendTopicForTimerDeleteKey",
        "boolean",
        False,
        "A recall names its message by topic and id, not by id alone.",
        owner=_OWNER,
    )

    # Replication.
    ha_listen_port: int | None = option(
        "haListenPort",
        "int",
        None,
        "The port that routes name for slaves.",
        owner=_OWNER,
        apache_default="listenPort + 1",
        minimum=1,
        maximum=65535,
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


STORE_ROWS: list[Option] = [
    *without_effect(
        "timers are worked on by one thread, and what is not in memory is read in another one before",
        "MessageStoreConfig",
        ("timerGetMessageThreadNum", "int", 3),
        ("timerPutMessageThreadNum", "int", 3),
        ("timerEnableDisruptor", "boolean", False),
        ("timerWarmEnable", "boolean", False),
    ),
    *without_effect(
        "pending timers are counted exactly, also after a crash",
        "MessageStoreConfig",
        ("timerEnableCheckMetrics", "boolean", True),
        ("timerCheckMetricsWhen", "String", "05"),
        ("timerMetricSmallThreshold", "int", 1_000_000),
    ),
    *without_effect(
        "the checkpoint tells exactly how far the wheel goes",
        "MessageStoreConfig",
        ("timerWheelSnapshotFlush", "boolean", False),
        ("timerWheelSnapshotIntervalMs", "int", 10_000),
    ),
    *without_effect(
        "a timer that cannot be stored is tried until it can; one that never can is counted and logged",
        "MessageStoreConfig",
        ("timerSkipUnknownError", "boolean", False),
        ("timerEnableRetryUntilSuccess", "boolean", False),
    ),
    *without_effect(
        "no timer waits for anything else after a start",
        "MessageStoreConfig",
        ("disappearTimeAfterStart", "int", -1),
    ),
    *without_effect(
        "Apache reads it nowhere that matters to the file wheel",
        "MessageStoreConfig",
        ("timerInterceptDelayLevel", "boolean", False),
        ("timerRecallToTimeWheelEnable", "boolean", True),
        ("timerRecallToTimelineEnable", "boolean", True),
    ),
    *without_effect(
        "progress is in the figures and metrics, not in the log",
        "MessageStoreConfig",
        ("timerProgressLogIntervalMs", "int", 10_000),
    ),
    *without_effect(
        "cold data is not looked for",
        "MessageStoreConfig",
        ("timerColdDataCheckIntervalMs", "int", 60_000),
    ),
    *without_effect(
        "a setting of the RocksDB stores, of which there is none here",
        "MessageStoreConfig",
        ("timerRocksDBStopScan", "boolean", False),
        ("timerRocksDBPrecisionMs", "long", 1000),
        ("timerRocksDBRollMaxTps", "double", 8000.0),
        ("timerRocksDBTimeExpiredMaxTps", "double", 200000.0),
        ("timerRocksDBRollIntervalHours", "int", 1),
        ("timerRocksDBRollRangeHours", "int", 2),
        ("maxRocksDBIndexQueryDays", "int", 7),
        ("transWriteOriginTransHalfEnable", "boolean", True),
        ("cleanRocksDBDirtyCQIntervalMin", "long", 60),
        ("statRocksDBCQIntervalSec", "long", 10),
        ("memTableFlushIntervalMs", "long", 3_600_000),
        ("realTimePersistRocksDBConfig", "boolean", True),
        ("enableRocksDBLog", "boolean", False),
        ("combineCQLoadingCQTypes", "String", "default;defaultRocksDB"),
        ("combineCQPreferCQType", "String", "default"),
        ("combineAssignOffsetCQType", "String", "default"),
        ("combineCQEnableCheckSelf", "boolean", False),
        ("combineCQMaxExtraSearchCommitLogFiles", "int", 3),
        ("bottomMostCompressionTypeForConsumeQueueStore", "String", "zstd"),
        ("rocksdbCompressionType", "String", "lz4"),
        ("rocksdbFlushWalFrequency", "int", 1024),
        ("rocksdbWalFileRollingThreshold", "long", 1_073_741_824),
    ),
    *refused(
        "RocksDB stores are not read or written",
        "MessageStoreConfig",
        ("storeType", "String", "default"),
        ("timerRocksDBEnable", "boolean", False),
        ("transRocksDBEnable", "boolean", False),
        ("indexRocksDBEnable", "boolean", False),
        ("rocksdbCQDoubleWriteEnable", "boolean", False),
    ),
    *refused(
        "the DLedger commit log has another format",
        "MessageStoreConfig",
        ("enableDLegerCommitLog", "boolean", False),
    ),
    *without_effect(
        "a setting of the DLedger commit log, of which there is none here",
        "MessageStoreConfig",
        ("storePathDLedgerCommitLog", "String", None),
        ("dLegerGroup", "String", None),
        ("dLegerPeers", "String", None),
        ("dLegerSelfId", "String", None),
        ("preferredLeaderId", "String", None),
        ("enableBatchPush", "boolean", False),
    ),
    *without_effect(
        "the size of a buffer of Apache's; bit maps here have the size that they need",
        "MessageStoreConfig",
        ("bitMapLengthConsumeQueueExt", "int", 64),
    ),
    *refused(
        "light message queues are not implemented yet",
        "MessageStoreConfig",
        ("enableLmq", "boolean", False),
        ("enableMultiDispatch", "boolean", False),
    ),
    *without_effect(
        "a setting of light message queues, of which there are none here",
        "MessageStoreConfig",
        ("maxLmqConsumeQueueNum", "int", 20_000),
    ),
    *without_effect(
        "compaction topics are not implemented yet",
        "MessageStoreConfig",
        ("compactionMappedFileSize", "int", 104_857_600),
        ("compactionCqMappedFileSize", "int", 10_485_760),
        ("compactionScheduleInternal", "int", 900_000),
        ("maxOffsetMapSize", "int", 104_857_600),
        ("compactionThreadNum", "int", 6),
        ("enableCompaction", "boolean", True),
    ),
    *without_effect(
        "batch consume queues are not implemented yet",
        "MessageStoreConfig",
        ("mapperFileSizeBatchConsumeQueue", "int", 13_800_000),
        ("searchBcqByCacheEnable", "boolean", True),
        ("maxConsumeQueueScan", "int", 20_000),
        ("sampleCountThreshold", "int", 5000),
        ("sampleSteps", "int", 32),
    ),
    *without_effect(
        "there are no slaves and no controller yet",
        "MessageStoreConfig",
        Option("storePathEpochFile", "String", None, apache_default="storePathRootDir/epochFileCheckpoint"),
        Option("storePathBrokerIdentity", "String", None, apache_default="storePathRootDir/brokerIdentity"),
        ("haSendHeartbeatInterval", "int", 5000),
        ("haHousekeepingInterval", "int", 20_000),
        ("haTransferBatchSize", "int", 32_768),
        ("haMasterAddress", "String", None),
        ("haMaxGapNotInSync", "int", 268_435_456),
        ("slaveTimeout", "int", 3000),
        ("offsetCheckInSlave", "boolean", False),
        ("totalReplicas", "int", 1),
        ("minInSyncReplicas", "int", 1),
        ("allAckInSyncStateSet", "boolean", False),
        ("enableAutoInSyncReplicas", "boolean", False),
        ("haFlowControlEnable", "boolean", False),
        ("maxHaTransferByteInSecond", "long", 104_857_600),
        ("haMaxTimeSlaveNotCatchup", "long", 15_000),
        ("syncMasterFlushOffsetWhenStartup", "boolean", False),
        ("maxChecksumRange", "long", 1_073_741_824),
        ("maxSlaveResendLength", "long", 268_435_456),
        ("syncFromLastFile", "boolean", False),
        ("asyncLearner", "boolean", False),
    ),
    *refused(
        "replication is not implemented yet",
        "MessageStoreConfig",
        Option(
            "brokerRole",
            "BrokerRole",
            "ASYNC_MASTER",
            choices=("ASYNC_MASTER", "SYNC_MASTER", "SLAVE"),
        ),
        ("inSyncReplicas", "int", 1),
    ),
    *refused(
        "records with a copy mark need a store of their own kind",
        "MessageStoreConfig",
        ("duplicationEnable", "boolean", False),
    ),
    *refused(
        "segments in other folders are not read",
        "MessageStoreConfig",
        ("readOnlyCommitLogStorePaths", "String", None),
    ),
    *without_effect(
        "Apache's pools, locks, warming and swapping of mapped files have no counterpart in this store",
        "MessageStoreConfig",
        ("commitIntervalCommitLog", "int", 200),
        ("useReentrantLockWhenPutMessage", "boolean", True),
        ("flushCommitLogTimed", "boolean", True),
        ("destroyMapedFileIntervalForcibly", "int", 120_000),
        ("redeleteHangedFileInterval", "int", 120_000),
        ("putMsgIndexHightWater", "int", 600_000),
        ("commitCommitLogLeastPages", "int", 4),
        ("flushLeastPagesWhenWarmMapedFile", "int", 4096),
        ("commitCommitLogThoroughInterval", "int", 200),
        ("putMessageTimeout", "int", 8000),
        ("warmMapedFileEnable", "boolean", False),
        ("debugLockEnable", "boolean", False),
        ("diskFallRecorded", "boolean", True),
        ("transientStorePoolEnable", "boolean", False),
        ("transientStorePoolSize", "int", 5),
        ("fastFailIfNoBufferInStorePool", "boolean", False),
        ("writeWithoutMmap", "boolean", False),
        ("dispatchCqThreads", "int", 10),
        ("dispatchCqCacheNum", "int", 4096),
        ("enableAsyncReput", "boolean", True),
        ("recheckReputOffsetFromCq", "boolean", False),
        ("mappedFileSwapEnable", "boolean", True),
        ("commitLogForceSwapMapInterval", "long", 43_200_000),
        ("commitLogSwapMapInterval", "long", 3_600_000),
        ("commitLogSwapMapReserveFileNum", "int", 100),
        ("logicQueueForceSwapMapInterval", "long", 43_200_000),
        ("logicQueueSwapMapInterval", "long", 3_600_000),
        ("cleanSwapedMapInterval", "long", 300_000),
        ("logicQueueSwapMapReserveFileNum", "int", 20),
        ("dispatchFromSenderThread", "boolean", False),
        ("wakeCommitWhenPutMessage", "boolean", True),
        ("wakeFlushWhenPutMessage", "boolean", False),
        ("maxAsyncPutMessageRequests", "int", 5000),
        ("enableBuildConsumeQueueConcurrently", "boolean", False),
        ("batchDispatchRequestThreadPoolNums", "int", 16),
        ("topicQueueLockNum", "int", 32),
        ("putConsumeQueueDataByFileChannel", "boolean", True),
        ("sharedByteBufferNum", "int", 16),
        ("spinLockCollisionRetreatOptimalDegree", "int", 1000),
        ("useABSLock", "boolean", False),
        ("enableLogConsumeQueueRepeatedlyBuildWhenRecover", "boolean", False),
        ("enableAcceleratedRecovery", "boolean", False),
        ("maxRecoveryCommitlogFiles", "int", 30),
    ),
    *without_effect(
        "delayed messages are stored by the turn that finds them due: nothing is pending",
        "MessageStoreConfig",
        ("enableScheduleAsyncDeliver", "boolean", False),
        ("scheduleAsyncDeliverMaxPendingLimit", "int", 2000),
        ("scheduleAsyncDeliverMaxResendNum2Blocked", "int", 3),
    ),
    *without_effect(
        "not implemented yet",
        "MessageStoreConfig",
        ("enableScheduleMessageStats", "boolean", True),
        ("enableRunningFlagsInFlush", "boolean", False),
        ("coldDataFlowControlEnable", "boolean", False),
        ("coldDataScanEnable", "boolean", False),
        ("dataReadAheadEnable", "boolean", True),
        ("accessMessageInMemoryHotRatio", "int", 26),
        ("readUnCommitted", "boolean", False),
        ("enableCleanExpiredOffset", "boolean", False),
        ("replicasPerDiskPartition", "int", 1),
        ("logicalDiskSpaceCleanForciblyThreshold", "double", 0.8),
        ("correctLogicMinOffsetSleepInterval", "int", 1),
        ("correctLogicMinOffsetForceInterval", "int", 300_000),
        ("pullBatchMaxMessageCount", "int", 160),
        ("messageIndexSafe", "boolean", False),
        ("maxBatchDeleteFilesNum", "int", 50),
        ("deleteConsumeQueueFilesInterval", "int", 100),
    ),
]
