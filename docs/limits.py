"""The rows of limits.md: what each limit is for, and what happens beyond it. Figures come from the code."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from orbitmq.broker.options import BROKER_TABLE


@dataclass(frozen=True, slots=True)
class Limit:
    """`source` is `module:NAME` of a constant below `orbitmq`, or the name of a broker's option."""

    what: str
    source: str
    beyond: str
    unit: str = ""

    @property
    def is_option(self) -> bool:
        """True if it can be set."""
        return ":" not in self.source

    def value(self) -> int:
        """The figure: of an option its default."""
        if self.is_option:
            row = BROKER_TABLE.find(self.source)
            assert row is not None, self.source
            assert isinstance(row.default, int), self.source
            return row.default
        module, _, name = self.source.partition(":")
        found: int = getattr(importlib.import_module(f"orbitmq.{module}"), name)
        return found


LIMITS: dict[str, list[Limit]] = {
    "Controllers": [
        Limit(
            "broker groups", "controller.groups:MAX_GROUPS", "refused, CONTROLLER_BROKER_ID_INVALID (2014)"
        ),
        Limit(
            "members of a broker group",
            "controller.groups:MAX_REPLICAS",
            "refused, CONTROLLER_BROKER_ID_INVALID (2014)",
        ),
        Limit(
            "name of a broker group",
            "controller.groups:MAX_NAME_LENGTH",
            "refused, CONTROLLER_BROKER_ID_INVALID (2014)",
            "characters",
        ),
        Limit(
            "elections that a group remembers",
            "controller.group:MAX_ELECTIONS_KEPT",
            "the oldest are dropped",
        ),
    ],
    "Messages": [
        Limit("body", "maxMessageSize", "refused, MESSAGE_ILLEGAL (13)", "bytes"),
        Limit(
            "properties",
            "protocol.records.message:MAX_PROPERTIES_BYTES",
            "refused, MESSAGE_ILLEGAL (13)",
            "bytes",
        ),
        Limit(
            "whole frame on the wire", "protocol.remoting.frame:MAX_FRAME_BYTES", "connection closed", "bytes"
        ),
        Limit("its header", "protocol.remoting.header_cy:MAX_HEADER_BYTES", "connection closed", "bytes"),
        Limit(
            "entries of the index for one message",
            "store.index.index_table:MOST_ENTRIES_PER_MESSAGE",
            "further keys are not found",
        ),
        Limit("delay of a timer message", "timerMaxDelaySec", "refused, MESSAGE_ILLEGAL (13)", "s"),
    ],
    "Names": [
        Limit(
            "topic", "protocol.names:MAX_TOPIC_CHARACTERS", "refused, INVALID_PARAMETER (29)", "characters"
        ),
        Limit(
            "retry and dead-letter topic",
            "protocol.names:MAX_RETRY_TOPIC_CHARACTERS",
            "refused, INVALID_PARAMETER (29)",
            "characters",
        ),
        Limit(
            "group", "protocol.names:MAX_GROUP_CHARACTERS", "refused, INVALID_PARAMETER (29)", "characters"
        ),
        Limit(
            "user", "broker.auth.handlers:MAX_NAME_CHARACTERS", "refused, NO_PERMISSION (16)", "characters"
        ),
    ],
    "Pulls, pops and queries": [
        Limit("recent messages in one pull", "maxTransferCountOnMessageInMemory", "the next pull gives them"),
        Limit(
            "bytes of recent messages in one pull",
            "maxTransferBytesOnMessageInMemory",
            "the next pull gives them",
            "bytes",
        ),
        Limit("old messages in one pull", "maxTransferCountOnMessageInDisk", "the next pull gives them"),
        Limit(
            "bytes of old messages in one pull",
            "maxTransferBytesOnMessageInDisk",
            "the next pull gives them",
            "bytes",
        ),
        Limit(
            "messages in one pull of a reader of whole topics",
            "store.queue.reader:MAX_BULK_COUNT",
            "the next pull gives them",
        ),
        Limit(
            "bytes of one pull at all",
            "store.queue.reader:MAX_PULL_BYTES",
            "the next pull gives them",
            "bytes",
        ),
        Limit(
            "index units that one pull looks through",
            "maxFilterMessageSize",
            "the client continues from there",
            "bytes",
        ),
        Limit("time a pull is held", "broker.pull.handlers:MAX_SUSPEND_MS", "answered: nothing found", "ms"),
        Limit(
            "members of broadcasting groups whose place is remembered",
            "broker.pull.broadcasts:MAX_MEMBERS",
            "it is not remembered",
        ),
        Limit("time a pop is held", "broker.pop.handlers:MAX_HELD_MS", "answered: nothing found", "ms"),
        Limit("messages in one pop", "broker.pop.pops:MOST_MESSAGES", "the next pop gives them"),
        Limit(
            "bytes after which a pop takes no further queue",
            "broker.pop.pops:MAX_POP_BYTES",
            "the next pop gives them",
            "bytes",
        ),
        Limit("pops held for a topic and group", "popPollingSize", "answered at once, POLLING_FULL (209)"),
        Limit("pops held at all", "maxPopPollingSize", "answered at once, POLLING_FULL (209)"),
        Limit(
            "popped and not acknowledged messages of a queue",
            "popInflightMessageThreshold",
            "nothing more from that queue (with enablePopMessageThreshold)",
        ),
        Limit("messages that a query by key gives", "maxMsgsNumBatch", "the newest are given"),
    ],
    "Filters": [
        Limit(
            "SQL92 expression",
            "broker.filter.sql92:MAX_LENGTH",
            "the subscription is refused (23)",
            "characters",
        ),
        Limit("its nesting", "broker.filter.sql92.values:MAX_NESTING", "the subscription is refused (23)"),
        Limit(
            "SQL92 filters at all",
            "broker.filter.filters:MAX_FILTERS",
            "those of groups that are gone go; else refused",
        ),
        Limit(
            "SQL92 filters of a topic",
            "broker.filter.filters:MAX_FILTERS_PER_TOPIC",
            "those of groups that are gone go; else refused",
        ),
    ],
    "Connections": [
        Limit("connections of a server", "maxConnections", "one more is closed when it is accepted"),
        Limit(
            "what all peers together have begun to send and not ended",
            "net.unfinished:MOST_BYTES",
            "those that were silent for longest are closed",
            "bytes",
        ),
        Limit(
            "body of a request, such as a heartbeat",
            "protocol.schema.declare:MAX_BODY_BYTES",
            "passed over; the request is refused, SYSTEM_ERROR (1)",
            "bytes",
        ),
        Limit(
            "body of a list of topics or groups, or of new offsets",
            "protocol.schema.declare:MAX_LIST_BYTES",
            "passed over; the request is refused, SYSTEM_ERROR (1)",
            "bytes",
        ),
        Limit(
            "searches and large bodies of a connection that are worked on at a time",
            "server.turn.pending_replies:MAX_OFF_LOOP_PER_CONNECTION",
            "refused, SYSTEM_BUSY (2)",
        ),
        Limit("held pulls and pops of all connections", "maxHeldRequests", "answered at once: nothing found"),
        Limit("slaves on a master's HA port", "server.ha.master:MAX_SLAVES", "connection closed"),
        Limit(
            "access key of a slave that signs in",
            "protocol.replication_sign_in:MAX_NAME_BYTES",
            "it does not connect",
            "bytes",
        ),
        Limit(
            "reason of a refused sign-in",
            "protocol.replication_sign_in:MAX_TEXT_BYTES",
            "cut off; the slave closes the connection of a master that sends more",
            "bytes",
        ),
        Limit(
            "epochs of a log, in controller mode",
            "protocol.epoch_replication:MAX_EPOCHS",
            "the slave does not follow; the broker does not become master",
        ),
        Limit(
            "routes that an acting master keeps", "server.lifecycle.acting:MAX_ROUTES_KEPT", "asked for anew"
        ),
        Limit(
            "piece of the log from a master, in memory until it is whole",
            "protocol.replication:MAX_PIECE_BYTES",
            "connection closed",
            "bytes",
        ),
        Limit(
            "held requests of a connection",
            "server.turn.pending_replies:MAX_WAITS_PER_CONNECTION",
            "answered at once, as if their time were over",
        ),
        Limit(
            "unsent bytes of a connection",
            "net.connection:HIGH_WATER_BYTES",
            "nothing more is read from it until it takes them",
            "bytes",
        ),
        Limit("silence of a connection", "serverChannelMaxIdleTimeSeconds", "closed", "s"),
        Limit("silence of a client's heartbeats", "channelExpiredTimeout", "disconnected", "ms"),
        Limit(
            "connections for metrics and health",
            "server.metrics.http:MAX_CONNECTIONS",
            "one more is closed when it is accepted",
        ),
        Limit("head of a request for them", "server.metrics.http:MAX_HEAD_BYTES", "answered 431", "bytes"),
    ],
    "Administration": [
        Limit("JSON text of a request", "protocol.schema.fastjson:MAX_JSON_BYTES", "refused", "bytes"),
        Limit("its depth", "protocol.schema.fastjson:MAX_DEPTH", "refused"),
        Limit("inflated registration", "protocol.bodies.registration:MAX_INFLATED_BYTES", "refused", "bytes"),
        Limit(
            "update of options",
            "handling.option_updates:MAX_UPDATE_BYTES",
            "refused, INVALID_PARAMETER (29)",
            "bytes",
        ),
        Limit("file of options", "options.sources:MAX_FILE_BYTES", "the server does not start", "bytes"),
        Limit(
            "topics or groups on a page", "splitMetadataSize", "further pages; old clients get all at once"
        ),
        Limit(
            "damaged records listed",
            "store.queue.reader:MAX_BAD_RECORDS_KEPT",
            "counted, and no longer logged one by one",
        ),
        Limit("samples of a metric", "metricsOtelCardinalityLimit", "added up in one more"),
    ],
    "Files": [
        Limit("segment of the commit log", "mappedFileSizeCommitLog", "the next one begins", "bytes"),
        Limit(
            "open files of queues, for reading",
            "store.queue.consume_queue:MAX_OPEN_FILES",
            "the oldest is closed",
        ),
        Limit("how full the disk may be", "diskMaxUsedSpaceRatio", "the oldest segments go early", "%"),
        Limit(
            "how full before sends are refused",
            "diskSpaceWarningLevelRatio",
            "SERVICE_NOT_AVAILABLE (14)",
            "%",
        ),
    ],
}

NO_LIMITS = {
    "store.queue.reader:MAX_READ_KEPT": "finished cold reads; the oldest are dropped",
    "protocol.epoch_replication:MAX_PIECE_BYTES": "follows from Apache's buffer, as without a controller",
    "server.ha.controller_mode:MAX_REQUEST_MS": "a time-out",
    "broker.ha.links:MAX_GROWTH_NOTES": "past lengths of the log, which date what is missing",
    "protocol.schema.declare:MAX_MESSAGE_BYTES": "as long as a frame may be",
    "broker.pop.acks_cy:MOST_FIXED_BYTES": "longer ones take the general path",
    "broker.auth.gate:MAX_DECISIONS": "size of a cache",
    "broker.auth.gate:MAX_REMEMBERED_CHARACTERS": "size of a cache",
    "broker.pop.ack_handlers:MOST_BITS": "within one pop, whose messages are limited",
    "broker.admin.query_handlers:MAX_QUERIED": "bounded by maxMsgsNumBatch",
    "broker.admin.query_handlers:MAX_UNITS": "a page of mqadmin queryCq",
    "broker.pop.acks:MOST_ACK_TEMPLATES": "size of a cache",
    "broker.pop.templates:MOST_TEMPLATES": "size of a cache",
    "broker.pop.templates:MOST_NAME_CHARACTERS": "longer ones take the general path",
    "broker.pop.revive:MOST_POINTS": "kept in memory; the rest is read when it is due",
    "broker.pull.pulls_cy:MAX_PLANS": "size of a cache",
    "broker.metadata.registration:MAX_PERIOD_MS": "bound of an option",
    "broker.transaction.transactions:MOST_RECENT": "kept in memory; older ones are looked up",
    "controller.live:MAX_TIMEOUT_MS": "bound of an option",
    "server.controller.metrics:MAX_SAMPLES": "the rest is added up in one more",
    "server.controller.etcd:MAX_CHANGES": "of one transaction; more of them are several",
    "server.controller.etcd:MAX_BYTES": "of one transaction; more of them are several",
    "server.controller.zookeeper:MAX_CHANGES": "of one transaction; more of them are several",
    "server.controller.zookeeper:MAX_BYTES": "of one transaction; more of them are several",
    "protocol.records.compression:MAX_BODY_BYTES": "of readers; servers inflate no body",
    "protocol.replication:MAX_PHYSICAL_OFFSET": "longer than any log: it tells strangers on the HA port",
    "protocol.records.message:MAX_TOPIC_BYTES": "a field of the format; names are limited above",
    "protocol.names:MAX_OFFSET": "a name",
    "protocol.names:MAX_RECONSUME_TIMES": "a name",
    "server.turn.guard:MAX_LOGGED_CHARACTERS": "of a line in the log",
    "store.queue.extension:MAX_UNIT_BYTES": "a field of the format",
}
"""Constants named like limits that are none that a user could meet, with the reason."""


def markdown() -> str:
    """All limits by subject."""
    parts = []
    for subject, limits in LIMITS.items():
        parts.append(
            f"### {subject}\n\n| limit of | figure | set by | beyond it |\n| --- | --- | --- | --- |"
        )
        for limit in limits:
            figure = f"{limit.value():,} {limit.unit}".rstrip()
            setting = f"`{limit.source}`" if limit.is_option else ""
            parts.append(f"| {limit.what} | {figure} | {setting} | {limit.beyond} |")
        parts.append("")
    return "\n".join(parts)
