"""The options of a delay service, and the clusters that they name."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from orbitmq.access import Access, credentials_of
from orbitmq.controller.options import ConsensusSettings
from orbitmq.delay_service.rules.targets import WEBHOOK, Known, Target
from orbitmq.net.address import is_loopback, parse_address, parse_addresses
from orbitmq.net.errors import BadAddress
from orbitmq.options import OptionError, OptionTable, option
from orbitmq.options.reporting import ReportingSettings

SOURCE_TOPIC = "orbitmq_delay"
DEAD_TOPIC = "orbitmq_delay_dead"
DEFAULT_HTTP = "127.0.0.1:8090"
NATIVE, DDMQ = "orbitmq", "ddmq"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_BETWEEN = re.compile(r";(?=[A-Za-z0-9._-]+=(?:rocketmq|kafka)://)")
_ROCKETMQ = frozenset({"access_key", "secret_file", "token_file", "tls", "tls_ca", "tls_cert", "tls_key"})
_KAFKA = frozenset({"sasl", "user", "secret_file", "tls", "tls_ca", "tls_cert", "tls_key"})
SASL = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@dataclass(kw_only=True)
class DelaySettings(ReportingSettings, ConsensusSettings):
    """All options of a delay service."""

    store_address: str = option(
        "",
        "Consensus store of a service with several instances: etcd://HOST:PORT,HOST:PORT,... or "
        "zookeeper://HOST:PORT,HOST:PORT,... Empty: this instance stands alone.",
    )
    store_prefix: str = option(
        "/orbitmq/delay",
        "Prefix of all keys in the consensus store. Instances of one service share it; another service needs "
        "another one.",
    )
    store_lease_seconds: int = option(
        3,
        "Lease of the instance that delivers: after it dies, another one begins within this time; with "
        "ZooKeeper within twice this time and a tick of the ensemble.",
        unit="s",
        minimum=2,
        maximum=60,
    )
    delay_instance: str = option("", "Name of this instance among the others; its host and folder if empty.")

    delay_data_dir: str = option("~/orbitmq-delay", "Folder of the store.")
    delay_clusters: str = option(
        "",
        "Clusters: NAME=rocketmq://HOST:PORT[;HOST:PORT] or NAME=kafka://HOST:PORT[,HOST:PORT], several "
        "with `;` between. Users and certificates follow after `?`.",
    )
    delay_topic: str = option(SOURCE_TOPIC, "Topic from which orders are read, in every cluster.")
    delay_dead_topic: str = option(DEAD_TOPIC, "Topic for dead letters, in the cluster of their order.")
    delay_sources: str = option(
        "", "Further sources, CLUSTER/TOPIC with `;` between, in the form that delayFormat names."
    )
    delay_format: str = option(
        NATIVE, "Form of the orders of delaySources: orbitmq or ddmq.", choices=(NATIVE, DDMQ)
    )
    delay_http: str = option(
        DEFAULT_HTTP, "Address of the HTTP API. Others than the loopback need delayTokenFile; empty: no API."
    )
    delay_token_file: str = option(
        "",
        "File with the tokens of the API: in the first line that of operators; in each further line the name "
        "of an owner and its token, with a blank between.",
    )
    delay_thrift: str = option(
        "",
        "Address of the thrift port for DDMQ's SDKs, 127.0.0.1:9613 as a rule. Others than the loopback need "
        "delayThriftAnyone. Empty: no such port.",
    )
    delay_thrift_anyone: bool = option(
        False,
        "Let the thrift port listen on addresses other than the loopback. It knows no users: whoever reaches "
        "it may send, and cancel messages whose ids they know.",
    )
    delay_thrift_topics: str = option(
        "",
        "Topics that take delayed messages from the thrift port, and no others, with `;` between. Empty: "
        "every topic takes both.",
    )
    delay_owners: str = option(
        "",
        "Topics of orders that are of one owner each, OWNER=CLUSTER/TOPIC with `;` between. Names of such an "
        "owner are scheduled, moved and cancelled through its topic alone.",
    )
    delay_rates: str = option(
        "", "Limits of deliveries, CLUSTER/TOPIC=N with `;` between: N messages in a second."
    )
    delay_webhooks: str = option(
        "",
        "Beginnings of web addresses that may be targets, each with `/` at the end, with `;` between. Empty: "
        "none.",
    )
    delay_max_targets: int = option(
        100_000, "Limit of targets with pending messages.", minimum=1, maximum=1_000_000
    )
    delay_queues: int = option(
        4, "Number of queues or partitions of topics that the service makes.", minimum=1, maximum=1024
    )
    delay_make_topics: bool = option(True, "Make the topics for orders and dead letters if they are missing.")
    delay_allow_create_time: bool = option(
        False, "Accept delay.after from topics of Kafka whose times are their senders'."
    )

    def complete(self) -> None:
        """Raises OptionError for values that do not go together."""
        super().complete()
        host, _ = self.http_address or ("127.0.0.1", 0)
        if not is_loopback(host) and not self.delay_token_file:
            raise OptionError(f"an API on {host} needs a token: --token-file FILE")
        _ = self.rates
        if self.thrift_address is not None:
            host, _ = self.thrift_address
            if not is_loopback(host) and not self.delay_thrift_anyone:
                raise OptionError(
                    f"--thrift: the port knows no users, and {host} is not the loopback: add --thrift-anyone"
                )
            _ = self.thrift_cluster

    @property
    def store_group(self) -> str:
        """Name of those who share the prefix; controllers are refused."""
        return "orbitmq-delay"

    @property
    def http_address(self) -> tuple[str, int] | None:
        """Host and port of the API."""
        return _address("--http", self.delay_http)

    @property
    def thrift_address(self) -> tuple[str, int] | None:
        """Host and port of the thrift port. Raises OptionError."""
        return _address("--thrift", self.delay_thrift)

    @property
    def thrift_cluster(self) -> str:
        """The cluster for messages of the thrift port: the first one of RocketMQ. Raises OptionError."""
        for name, cluster in self.clusters.items():
            if not cluster.is_kafka:
                return name
        raise OptionError("--thrift: DDMQ's messages are kept in RocketMQ: give such a --cluster")

    @property
    def thrift_topics(self) -> frozenset[str]:
        """Topics that take delayed messages alone, empty if all take both."""
        return frozenset(filter(None, self.delay_thrift_topics.split(";")))

    @property
    def ddmq_sources(self) -> int:
        """Number of sources in DDMQ's form."""
        return sum(form == DDMQ for form in self.forms.values())

    @property
    def folder(self) -> Path:
        return Path(self.delay_data_dir).expanduser()

    @property
    def clusters(self) -> dict[str, ClusterAt]:
        """The clusters by name. Raises OptionError."""
        found: dict[str, ClusterAt] = {}
        for text in _BETWEEN.split(self.delay_clusters):
            if not text:
                continue
            cluster = parse_cluster(text)
            if cluster.name in found:
                raise OptionError(f"--cluster {cluster.name} is given twice")
            found[cluster.name] = cluster
        if not found:
            raise OptionError("a delay service needs a cluster: --cluster NAME=rocketmq://HOST:PORT")
        return found

    @property
    def forms(self) -> dict[Target, str]:
        """The form of orders by source. Raises OptionError."""
        clusters = self.clusters
        found = {Target(name, self.delay_topic): NATIVE for name in clusters}
        for text in filter(None, self.delay_sources.split(";")):
            cluster, slash, topic = text.partition("/")
            if not slash or not topic or cluster not in clusters:
                raise OptionError(f"--source {text}: expected CLUSTER/TOPIC with the name of a --cluster")
            if self.delay_format == DDMQ and clusters[cluster].is_kafka:
                raise OptionError(f"--source {text}: DDMQ's form is read from RocketMQ")
            found[Target(cluster, topic)] = self.delay_format
        for source in self.owners:
            if source in found:
                raise OptionError(f"--source {source}: the topic is of one owner")
            found[source] = NATIVE
        return found

    @property
    def owners(self) -> dict[Target, str]:
        """Owners by their sources. Raises OptionError."""
        found: dict[Target, str] = {}
        clusters = self.clusters
        for text in filter(None, self.delay_owners.split(";")):
            owner, equals, source = text.partition("=")
            cluster, _, topic = source.partition("/")
            target = Target(cluster, topic)
            if not owner or not equals or not topic or cluster not in clusters:
                raise OptionError(
                    f"--owner {text}: expected OWNER=CLUSTER/TOPIC with the name of a --cluster"
                )
            if target in found or target.topic == self.delay_topic:
                raise OptionError(f"--owner {text}: the topic is not this owner's alone")
            if any(name == owner and one.cluster == cluster for one, name in found.items()):
                raise OptionError(f"--owner {text}: an owner has one topic in a cluster")
            found[target] = owner
        return found

    @property
    def rates(self) -> dict[str, float]:
        """Limits by target. Raises OptionError."""
        found = {}
        for text in filter(None, self.delay_rates.split(";")):
            target, _, number = text.rpartition("=")
            try:
                rate = float(number)
            except ValueError:
                rate = 0.0
            if "/" not in target or not 0.001 <= rate <= 1e9:
                raise OptionError(f"--rate {text}: expected CLUSTER/TOPIC=MESSAGES-IN-A-SECOND")
            found[target] = rate
        return found

    @property
    def webhooks(self) -> tuple[str, ...]:
        """Beginnings of web addresses. Raises OptionError."""
        found = tuple(filter(None, self.delay_webhooks.split(";")))
        for one in found:
            parts = urlsplit(one)
            if parts.scheme not in ("http", "https") or not parts.hostname or not one.endswith("/"):
                raise OptionError(f"--webhook {one}: expected https://HOST/ or https://HOST/PATH/")
        return found

    @property
    def known(self) -> Known:
        """The clusters as the rules know them."""
        kafka = {name: cluster.is_kafka for name, cluster in self.clusters.items()}
        return Known(
            kafka,
            frozenset(self.forms),
            self.delay_dead_topic,
            self.webhooks,
            self.owners,
            self.delay_max_targets,
        )

    @property
    def tokens(self) -> dict[str, str]:
        """Owners by the tokens of the API, empty for operators. None without tokens. Raises OptionError."""
        if not self.delay_token_file:
            return {}
        found = {read_secret("--token-file", self.delay_token_file): ""}
        for number, line in enumerate(Path(self.delay_token_file).read_text(encoding="utf-8").splitlines()):
            if number and line.strip():
                owner, _, token = line.partition(" ")
                if not owner or not token.strip() or token.strip() in found:
                    raise OptionError(
                        f"--token-file, line {number + 1}: expected NAME TOKEN, each token once in the file"
                    )
                found[token.strip()] = owner
        return found


def _address(name: str, text: str) -> tuple[str, int] | None:
    if not text:
        return None
    try:
        return parse_address(text)
    except BadAddress as error:
        raise OptionError(f"{name}: {error}") from None


DELAY_TABLE = OptionTable(DelaySettings)


@dataclass(frozen=True, slots=True)
class ClusterAt:
    """A cluster, and how it is reached."""

    name: str
    is_kafka: bool
    addresses: str
    """Name servers with `;` between, or brokers of Kafka with `,`."""
    access: Access = field(default_factory=Access, repr=False)
    """Of RocketMQ."""
    kafka: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Arguments of Kafka's clients."""


def parse_cluster(text: str) -> ClusterAt:
    """`NAME=rocketmq://...` or `NAME=kafka://...`. Raises OptionError."""
    name, equals, url = text.partition("=")
    if not equals or not _NAME.fullmatch(name) or name == WEBHOOK:
        raise OptionError(
            f"--cluster {text.partition('?')[0]}: expected NAME=rocketmq://HOST:PORT or NAME=kafka://HOST:PORT"
        )
    where = f"--cluster {name}"
    place, _, query = url.partition("?")
    scheme = urlsplit(place).scheme
    addresses = place.removeprefix(f"{scheme}://").rstrip("/")
    if scheme not in ("rocketmq", "kafka") or not addresses:
        raise OptionError(f"{where}: {place!r} begins neither with rocketmq:// nor with kafka://")
    try:
        parsed = parse_addresses(addresses.replace(",", ";"))
    except BadAddress as error:
        raise OptionError(f"{where}: {error}") from None
    given = {key: unquote(value) for key, value in parse_qsl(query, keep_blank_values=True)}
    known = _KAFKA if scheme == "kafka" else _ROCKETMQ
    if unknown := sorted(given.keys() - known):
        raise OptionError(f"{where}: {unknown[0]} is none of {', '.join(sorted(known))}")
    context = _context(where, given)
    if scheme == "rocketmq":
        secret = read_secret(where, given["secret_file"]) if "secret_file" in given else None
        session = read_secret(where, given["token_file"]) if "token_file" in given else None
        try:
            credentials = credentials_of(given.get("access_key"), secret, session)
        except ValueError as error:
            raise OptionError(f"{where}: {error}") from None
        return ClusterAt(name, False, ";".join(parsed), Access(credentials, context))
    return ClusterAt(name, True, ",".join(parsed), kafka=_kafka_arguments(where, given, context))


def _kafka_arguments(where: str, given: Mapping[str, str], context: ssl.SSLContext | None) -> dict[str, Any]:
    arguments: dict[str, Any] = {"security_protocol": "SSL" if context else "PLAINTEXT"}
    if context:
        arguments["ssl_context"] = context
    if "sasl" in given:
        if given["sasl"] not in SASL:
            raise OptionError(f"{where}: sasl={given['sasl']} is none of {', '.join(SASL)}")
        if "user" not in given or "secret_file" not in given:
            raise OptionError(f"{where}: sasl needs user and secret_file")
        arguments["security_protocol"] = "SASL_SSL" if context else "SASL_PLAINTEXT"
        arguments["sasl_mechanism"] = given["sasl"]
        arguments["sasl_plain_username"] = given["user"]
        arguments["sasl_plain_password"] = read_secret(where, given["secret_file"])
    elif "user" in given or "secret_file" in given:
        raise OptionError(f"{where}: user and secret_file need sasl")
    return arguments


def _context(where: str, given: Mapping[str, str]) -> ssl.SSLContext | None:
    tls = given.get("tls", "false").lower()
    if tls not in ("true", "false"):
        raise OptionError(f"{where}: tls is true or false")
    if tls == "false" and not any(name in given for name in ("tls_ca", "tls_cert")):
        return None
    try:
        context = ssl.create_default_context(cafile=given.get("tls_ca"))
        if "tls_cert" in given:
            context.load_cert_chain(given["tls_cert"], given.get("tls_key"))
    except (OSError, ValueError) as error:
        raise OptionError(f"{where}: a file of tls_... is of no use: {error}") from None
    return context


def read_secret(where: str, path: str) -> str:
    """The first line of a file. Raises OptionError."""
    try:
        with open(path, encoding="utf-8") as file:
            secret = file.readline().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise OptionError(f"{where}: {path}: {reason}") from None
    if not secret:
        raise OptionError(f"{where}: {path} is empty")
    return secret
