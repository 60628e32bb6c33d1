"""Administration of one broker: configuration, figures, cleaning."""

from __future__ import annotations

from orbitmq.protocol.bodies.route import KVTable
from orbitmq.protocol.bodies.stats import BrokerStatsData
from orbitmq.protocol.schema.declare import Blob, Bytes, JsonReply, Long, Reply, Request, Void, request, wire


@request(25)
class UpdateBrokerConfig(Request[Void]):
    """Set options; the body is Java properties text."""

    body: Bytes | None = None


class BrokerConfigReply(Reply):
    """Every option as `key=value` lines; `version` is the JSON of the configuration's DataVersion."""

    version: str
    body: Bytes | None = None


@request(26)
class GetBrokerConfig(Request[BrokerConfigReply]):
    """Every option of the broker."""


@request(28)
class GetBrokerRuntimeInfo(Request[JsonReply[KVTable]]):
    """The broker's figures."""


@request(60)
class GetTimerCheckPoint(Request[Blob]):
    """The timer check point's 56 bytes, for slaves."""


@request(61)
class GetTimerMetrics(Request[Blob]):
    """The timer metrics' JSON, for slaves."""


@request(306)
class CleanExpiredConsumequeue(Request[Void]):
    """Delete consume-queue files whose messages are gone."""


@request(315)
class ViewBrokerStatsData(Request[JsonReply[BrokerStatsData]]):
    """One statistic over the last minute, hour and day."""

    stats_name: str
    stats_key: str


@request(329)
class DeleteExpiredCommitlog(Request[Void]):
    """Delete commit-log files that are old enough now."""


@request(354)
class CheckRocksdbCqWriteProgress(Request[Blob]):
    """Compare RocksDB consume queues with those in files; the answer is JSON."""

    topic: str
    check_store_time: Long = 0


@request(355)
class ExportRocksdbConfigToJson(Request[Void]):
    """Write tables kept in RocksDB to JSON files."""

    config_type: str
    """`topics;subscriptionGroups;consumerOffsets` or some of them."""


@request(2001)
class UpdateColdDataFlowCtrConfig(Request[Void]):
    """Limit how much cold data groups may read; the body is `group=threshold` lines."""

    body: Bytes | None = None


@request(2002)
class RemoveColdDataFlowCtrConfig(Request[Void]):
    """Take a group's limit away; the body is its name."""

    body: Bytes | None = None


@request(2003)
class GetColdDataFlowCtrInfo(Request[Blob]):
    """The limits and what groups read, as JSON."""


@request(2004)
class SetCommitlogReadMode(Request[Void]):
    """Set the advice for the mapped commit log: normal (0) or random (1) reads."""

    read_ahead_mode: str | None = wire("READ_AHEAD_MODE", default=None)


@request(5001)
class SwitchTimerEngine(Request[Void]):
    """Keep timers in files (`F`) or in RocksDB (`R`)."""

    engine_type: str | None = wire("E_T", default=None)
