"""Options of producers and consumers.

Names and defaults are those of Apache's client where the meaning is the same (`sendMsgTimeout` is
`send_msg_timeout_ms`); units stand last in a name.

`Producer` and `PushConsumer` are these classes with behaviour: `Producer("group", send_msg_timeout_ms=5000)`.
Options are read when the producer or consumer starts; changing them later has no effect.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum

from orbitmq.access import credentials_of
from orbitmq.client.core.checking import check_types, check_within, naming
from orbitmq.client.core.dead_letter_policy import DeadLetterPolicy
from orbitmq.client.core.errors import InvalidArgument
from orbitmq.client.core.events import ClientEvent
from orbitmq.client.core.identity import own_ip
from orbitmq.client.core.middleware import Middleware
from orbitmq.client.core.names import check_group
from orbitmq.client.core.namespaces import wrap
from orbitmq.client.core.rebalance import STRATEGIES, Strategy
from orbitmq.net.address import default_namesrv, parse_addresses
from orbitmq.protocol.bodies.heartbeat import ConsumeFromWhere
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.names import AUTO_CREATE_TOPIC, TRACE_TOPIC, check_topic
from orbitmq.protocol.records.compression import DEFAULT_MAX_INFLATED_BYTES
from orbitmq.protocol.remoting.signing import Credentials


@dataclass(eq=False)
class ClientOptions:
    """Options that producers and consumers have in common."""

    group: str
    """The producer or consumer group."""
    namesrv: str | Sequence[str] = ""
    """Name servers, `host:port`, several joined by `;` or in a list. Empty: NAMESRV_ADDR of the environment,
    else 127.0.0.1:9876."""
    _: KW_ONLY
    client_ip: str | None = None
    """The address in client ids and message ids; None: the one by which the name server is reached."""
    instance_name: str | None = None
    """Name that distinguishes clients on one address; None: the process id and a number that is used once."""
    poll_name_server_interval_ms: int = 30_000
    """Interval at which routes are looked up again."""
    heartbeat_broker_interval_ms: int = 30_000
    """Interval of heartbeats to brokers; they forget a client after 120 s without one."""
    mq_client_api_timeout_ms: int = 3000
    """Timeout of calls that are neither sends nor pulls."""
    connect_timeout_ms: int = 3000
    """Timeout of opening a connection."""
    access_key: str | None = None
    """The user that every request is signed as; None: requests are not signed."""
    secret_key: str | None = field(default=None, repr=False)
    """The user's secret."""
    security_token: str | None = field(default=None, repr=False)
    """Token for keys that are valid for a limited time."""
    tls: bool | ssl.SSLContext = False
    """True if connections are encrypted. True checks certificates and names against the authorities that the
    system trusts; your own context may trust others, or present a client certificate."""
    namespace: str = ""
    """Prefix that separates topics and groups of several programs: names are `namespace%name` on the wire."""
    max_inflated_body_bytes: int = DEFAULT_MAX_INFLATED_BYTES
    """Maximum size of one body that came compressed, once it is inflated. A message with a larger one is an
    UnreadableMessage: handlers do not get it, and it is retried and given up as if one had failed."""
    trace: bool = False
    """True if each message is recorded in `trace_topic`, as Java's client does."""
    trace_topic: str = TRACE_TOPIC
    """Topic of trace records. Brokers create RMQ_SYS_TRACE_TOPIC if `traceTopicEnable` is set."""
    middleware: Sequence[Middleware] = ()
    """Code around every send and every handler, the outermost first. With `orbitmq.telemetry.OpenTelemetry()`
    the client makes traces and metrics."""
    on_event: Callable[[ClientEvent], None] | None = None
    """Called when a connection opens, ends or is restored, and when no server answers, or one answers again.
    It must not raise or block."""
    on_error: Callable[[Exception], None] | None = None
    """Called with every failure in the background (heartbeats, routes, pulls, handlers), which is also
    logged: once for a failure that lasts. It must not raise or block."""

    def __post_init__(self) -> None:
        """Checks what was set. Raises InvalidArgument, IllegalName, BadAddress."""
        check_types(self)
        self.shown_group = self.group
        self.group = wrap(self.namespace, self.group)
        with naming(self, "group"):
            check_group(self.group)
        with naming(self, "trace_topic"):
            if self.trace:
                check_topic(self.trace_topic)
        with naming(self, "namesrv"):
            self.namesrv = ";".join(parse_addresses(self.namesrv or default_namesrv()))
        for name in ("poll_name_server_interval_ms", "heartbeat_broker_interval_ms"):
            check_within(self, name, 10, 3_600_000)
        for name in ("mq_client_api_timeout_ms", "connect_timeout_ms"):
            check_within(self, name, 1, 3_600_000)
        check_within(self, "max_inflated_body_bytes", 1, 1 << 30)
        try:
            _ = self.credentials
        except ValueError as error:
            raise InvalidArgument(f"{type(self).__name__}: {error}") from None

    @property
    def credentials(self) -> Credentials | None:
        """Credentials that requests are signed with. Raises ValueError for half of a pair of keys."""
        return credentials_of(self.access_key, self.secret_key, self.security_token)

    async def own_ip(self) -> str:
        """The address in client and message ids."""
        return self.client_ip or await own_ip(parse_addresses(self.namesrv)[0])


class Compression(Enum):
    """Algorithm that makes large bodies smaller. LZ4 and ZSTD need the extra `fast` (ZSTD not from Python
    3.14).
    """

    ZLIB = "ZLIB"
    LZ4 = "LZ4"
    ZSTD = "ZSTD"


@dataclass(eq=False)
class ProducerOptions(ClientOptions):
    """Options of a producer."""

    _: KW_ONLY
    delivery_timeout_ms: int = 30_000
    """Time for which a send is repeated while no broker answers: rounds of tries, with pauses from 0.1 s to
    2 s. 0 behaves as Java's client: one round, then the error."""
    send_msg_timeout_ms: int = 3000
    """Timeout of one round of tries."""
    retry_times_when_send_failed: int = 2
    """Number of further tries in a round, on other brokers if there are any."""
    retry_another_broker_when_not_store_ok: bool = False
    """True if a send with a status other than SEND_OK is repeated at another broker."""
    join_sends: bool = True
    """True if small messages whose sends begin at the same time share a request. Each has its own result."""
    send_latency_enable: bool = False
    """True if brokers that were slow or failed are avoided for a while."""
    compress_msg_body_over_bytes: int = 4096
    """Bodies of this length or more are compressed, unless that makes them longer."""
    compress_type: Compression = Compression.ZLIB
    """Compression algorithm. Consumers must support it; Java's do from 5.0 on, and always support ZLIB."""
    compress_level: int = 5
    """Compression level: 0 to 9 for ZLIB, up to 12 for LZ4, up to 22 for ZSTD."""
    max_message_size_bytes: int = 4 << 20
    """Maximum size of a body as it is sent (see `compress_msg_body_over_bytes`), and of a batch.

    Brokers have their own limit (`maxMessageSize`).
    """
    create_topic_key: str = AUTO_CREATE_TOPIC
    """Template topic, from which brokers create a topic on the first send to it."""
    default_topic_queue_nums: int = 4
    """Number of queues of a topic that is created this way."""
    max_submitted: int = 10_000
    """Maximum of submitted messages that are not stored yet; `submit` waits while there are more."""
    max_in_flight: int = 1024
    """Maximum of sends in flight; `send` waits while there are more."""
    max_in_flight_bytes: int = 100 << 20
    """Maximum of body bytes in flight; `send` and `submit` wait while there are more."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_within(self, "delivery_timeout_ms", 0, 86_400_000)
        check_within(self, "send_msg_timeout_ms", 1, 86_400_000)
        check_within(self, "retry_times_when_send_failed", 0, 1000)
        check_within(self, "compress_msg_body_over_bytes", 0, 1 << 40)
        check_within(self, "compress_level", 0, 22)
        check_topic(self.create_topic_key)
        check_within(self, "max_message_size_bytes", 1, (16 << 20) - 65_536)
        check_within(self, "default_topic_queue_nums", 1, 65_535)
        check_within(self, "max_submitted", 1, 10_000_000)
        check_within(self, "max_in_flight", 1, 65_535)
        check_within(self, "max_in_flight_bytes", 1, 1 << 40)


SHARED_INSTANCE_NAME = "DEFAULT"
"""The instance of broadcasting consumers: their local file has to be found again after a restart."""
LAST_OFFSET = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
FIRST_OFFSET = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
TIMESTAMP = ConsumeFromWhere.CONSUME_FROM_TIMESTAMP


@dataclass(eq=False)
class ConsumerOptions(ClientOptions):
    """Options of a consumer to which messages are pushed."""

    _: KW_ONLY
    consume_from_where: ConsumeFromWhere = field(
        default=LAST_OFFSET, metadata={"takes": "FIRST_OFFSET, LAST_OFFSET or TIMESTAMP"}
    )
    """Position at which a group begins in a queue for which it has no offset. While a broker still has the
    first message of a queue in memory, a new group begins with that message in any case."""
    consume_timestamp_ms: int | None = None
    """For TIMESTAMP: the store time (ms since 1970) to begin at; None: half an hour ago."""
    allocate_message_queue_strategy: str | Strategy = "AVG"
    """Strategy that divides queues among the members of the group: AVG, AVG_BY_CIRCLE, CONSISTENT_HASH, or a
    function of `orbitmq.client.core.rebalance`. All members must have the same."""
    ordered: bool = False
    """True if the messages of a queue are handled one after the other; queues are locked at the brokers. A
    message that fails is repeated in place and blocks its queue."""
    ordered_by_key: bool = False
    """True if the messages of a key (the sharding key, else the first of `keys`) are handled one after the
    other, beside those of other keys; queues are locked at the brokers. A message that fails is repeated in
    place and blocks its key alone. Others run ahead of it in its queue, by `consume_concurrently_max_span`
    messages and one pull at most: after a crash these come again. Messages of a queue without a key count as
    one key. For handlers of single messages."""
    broadcasting: bool = False
    """True if every member of the group gets every message. Offsets are kept in a local file, and a message
    that fails is not delivered again. Excludes `ordered`, and options of retries."""
    local_offsets_folder: str = "~/.rocketmq_offsets"
    """Folder in which a broadcasting consumer keeps its offsets: in `CLIENT_ID/GROUP/offsets.json`, as Java's
    client does. The client id is `IP@DEFAULT`: set `instance_name` for several members on one machine."""
    concurrency: int = 20
    """Maximum of messages, or of queues of an ordered consumer, that are handled at the same time (Apache's
    consumeThreadMax)."""
    max_reconsume_times: int = -1
    """Number of retries before a message goes to the dead-letter topic; -1: 16, and no limit for an ordered
    consumer."""
    dead_letter_policy: DeadLetterPolicy | None = None
    """Number of attempts, waits between them, exceptions without a retry. Replaces `max_reconsume_times`."""
    max_in_flight_per_key: int | None = None
    """Maximum of messages with one key (the sharding key, else the first of `keys`) that are handled at the
    same time, in the order in which they came. A message that fails is retried later and does not block its
    successors (see `ordered_by_key`). None: no limit. For handlers of single messages; not for ordered
    consumers."""
    suspend_current_queue_time_ms: int = 1000
    """Pause of an ordered queue before a message that failed is repeated (10 to 30000), unless handler or
    policy choose a delay level."""
    consume_timeout_ms: int = 900_000
    """Time after which a message whose handler has not ended goes back, and is delivered again."""
    pull_batch_size: int = 32
    """Maximum of messages in one pull."""
    pull_batch_size_in_bytes: int = 256 << 10
    """Maximum of bytes in one pull."""
    pull_interval_ms: int = 0
    """Pause between pulls of one queue."""
    pull_threshold_for_queue: int = 1000
    """A queue is not pulled while this client holds more of its messages than this."""
    pull_threshold_size_for_queue_mib: int = 100
    """The same for the size of their bodies."""
    pull_threshold_for_topic: int = -1
    """The same for all queues of a topic together, divided among them; -1: no limit."""
    pull_threshold_size_for_topic_mib: int = -1
    """The same for the size of their bodies; -1: no limit."""
    consume_concurrently_max_span: int = 2000
    """Maximum distance, in messages, between the last message pulled and the oldest that is not done."""
    pull_time_delay_when_exception_ms: int = 1000
    """Longest pause after a pull that failed. The first is 50 ms; it doubles with each failure in a row."""
    broker_suspend_max_time_ms: int = 15_000
    """Time that a broker may hold a pull while there is no message."""
    consumer_timeout_when_suspend_ms: int = 30_000
    """Timeout of a pull, held or not."""
    persist_consumer_offset_interval_ms: int = 5000
    """Interval at which offsets are committed."""
    rebalance_interval_ms: int = 20_000
    """Interval at which queues are divided among the members, even without a notice of a change."""
    on_assigned: Callable[[list[MessageQueue]], object] | None = None
    """Called on the event loop with the queues that were assigned to this member, without retry topics."""
    on_revoked: Callable[[list[MessageQueue]], object] | None = None
    """Called with the queues that were taken from this member, once their offsets are committed, and with all
    queues on close. Neither callback may block."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_kind()
        self._check_ranges()
        if self.consumer_timeout_when_suspend_ms <= self.broker_suspend_max_time_ms:
            raise InvalidArgument(
                f"{type(self).__name__}: consumer_timeout_when_suspend_ms has to be more than "
                f"broker_suspend_max_time_ms, {self.broker_suspend_max_time_ms}"
            )

    def _check_kind(self) -> None:
        """Checks how queues and messages are divided: some options exclude each other."""
        owner = type(self).__name__
        if isinstance(self.allocate_message_queue_strategy, str):
            name = self.allocate_message_queue_strategy
            if name not in STRATEGIES:
                raise InvalidArgument(
                    f"{owner}: allocate_message_queue_strategy has to be one of "
                    f"{', '.join(STRATEGIES)} or a function, not {name!r}"
                )
        kinds = [name for name in ("ordered", "ordered_by_key", "broadcasting") if getattr(self, name)]
        if len(kinds) > 1:
            raise InvalidArgument(f"{owner}: {kinds[0]}=True or {kinds[1]}=True, a consumer is not both")
        if self.broadcasting:
            self.instance_name = self.instance_name or SHARED_INSTANCE_NAME
            for name, absent in (("max_reconsume_times", -1), ("dead_letter_policy", None)):
                if getattr(self, name) != absent:
                    raise InvalidArgument(
                        f"{owner}: {name} is not for broadcasting consumers: to them a message that fails is "
                        "not delivered again"
                    )
        policy = self.dead_letter_policy
        if policy is not None and policy.when_exhausted == "stay" and not self.in_order:
            raise InvalidArgument(
                f'{owner}: when_exhausted="stay" is for consumers with ordered=True or ordered_by_key=True: '
                "others hand a message that failed back to the broker"
            )
        if policy is not None and self.max_reconsume_times != -1:
            raise InvalidArgument(
                f"{owner}: max_reconsume_times or dead_letter_policy, which has max_attempts"
            )
        if self.max_in_flight_per_key is not None:
            check_within(self, "max_in_flight_per_key", 1, 1000)
            if self.in_order:
                raise InvalidArgument(
                    f"{owner}: max_in_flight_per_key is not for ordered consumers, which handle one message "
                    "of a queue, or of a key, after the other"
                )

    def _check_ranges(self) -> None:
        if self.consume_timestamp_ms is not None:
            check_within(self, "consume_timestamp_ms", 0, 2**63 - 1)
        check_within(self, "concurrency", 1, 1000)
        check_within(self, "consume_concurrently_max_span", 1, 65_535)
        check_within(self, "pull_threshold_for_queue", 1, 65_535)
        check_within(self, "pull_threshold_size_for_queue_mib", 1, 1024)
        if self.pull_threshold_for_topic != -1:
            check_within(self, "pull_threshold_for_topic", 1, 6_553_500)
        if self.pull_threshold_size_for_topic_mib != -1:
            check_within(self, "pull_threshold_size_for_topic_mib", 1, 102_400)
        check_within(self, "pull_batch_size", 1, 1024)
        check_within(self, "pull_batch_size_in_bytes", 1, 128 << 20)
        check_within(self, "pull_interval_ms", 0, 65_535)
        check_within(self, "pull_time_delay_when_exception_ms", 1, 3_600_000)
        check_within(self, "broker_suspend_max_time_ms", 0, 3_600_000)
        check_within(self, "persist_consumer_offset_interval_ms", 10, 3_600_000)
        check_within(self, "rebalance_interval_ms", 10, 3_600_000)
        check_within(self, "consume_timeout_ms", 1, 2**31 - 1)
        check_within(self, "max_reconsume_times", -1, 2**31 - 1)
        check_within(self, "suspend_current_queue_time_ms", 10, 30_000)

    @property
    def in_order(self) -> bool:
        """True if order is kept, by queue or by key: queues are locked, and failures repeated in place."""
        return self.ordered or self.ordered_by_key

    @property
    def strategy(self) -> Strategy:
        """The function that shares out queues."""
        chosen = self.allocate_message_queue_strategy
        return STRATEGIES[chosen] if isinstance(chosen, str) else chosen
