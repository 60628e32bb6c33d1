"""The rows of a controller: Apache's ControllerConfig, the network's, and the consensus store's."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.options import (
    Long,
    Option,
    OptionError,
    OptionTable,
    Settings,
    option,
    without_effect,
)
from orbitmq.options.network import NETWORK_ROWS, NetworkSettings
from orbitmq.options.reporting import ReportingSettings

_OWNER = "ControllerConfig"
DEFAULT_PORT = 19876


@dataclass(kw_only=True)
class StoreSettings(Settings):
    """The consensus store, and this controller's place in it: OrbitMQ's own options."""

    advertised_address: str = option(
        "", "Address given to brokers and tools, `host:port`; the listen address if empty."
    )
    store_address: str = option(
        "", "The consensus store: etcd://HOST:PORT,HOST:PORT,... or zookeeper://HOST:PORT,HOST:PORT,..."
    )
    store_prefix: str = option(
        "/orbitmq/controller",
        "Prefix of all keys in the consensus store. Controllers of one cluster share it; another cluster "
        "needs another one.",
    )
    store_lease_seconds: int = option(
        3,
        "Lease of the leading controller: after it dies, another one leads within this time; with ZooKeeper "
        "within twice this time and a tick of the ensemble.",
        unit="s",
        minimum=2,
        maximum=60,
    )
    store_timeout_ms: Long = option(
        1500, "Longest wait for an answer of the consensus store.", unit="ms", minimum=100, maximum=60_000
    )
    store_ca_path: str = option(
        "", "Certificates that the consensus store is checked against; with it the connection uses TLS."
    )
    store_cert_path: str = option("", "Certificate of this controller for the consensus store.")
    store_key_path: str = option("", "Key of that certificate.")
    controller_group: str = option(
        "orbitmq", "Name of this cluster of controllers. A prefix that another group uses is refused."
    )
    controller_id: str = option("", "Name of this controller among the others; its address if empty.")


@dataclass(kw_only=True)
class ControllerSettings(NetworkSettings, ReportingSettings, StoreSettings, owner=_OWNER):
    """The options of one controller; rules read them at every step, so that updates count at once."""

    listen_port: int = option(
        DEFAULT_PORT,
        "The port that brokers and tools use.",
        minimum=1,
        maximum=65535,
        owner="NettyServerConfig",
    )
    scan_not_active_broker_interval: Long = option(
        500,
        "Interval of checks for silent brokers and for groups without a master.",
        unit="ms",
        apache_default="5000",
        minimum=10,
    )
    enable_elect_unclean_master: bool = option(
        False,
        "Elect a replica that is not in sync where no in-sync replica is alive. Messages that it "
        "had not copied are lost.",
        mutable=True,
    )
    notify_broker_role_changed: bool = option(
        True,
        "Notify brokers of a new master at once; else they learn of it at their next look.",
        mutable=True,
    )
    config_black_list: str = option(
        "configBlackList;configStorePath",
        "Options that may not be changed over the network, separated by `;`.",
    )

    def complete(self) -> None:
        super().complete()
        self.store_prefix = self.store_prefix.rstrip("/")
        if bool(self.store_cert_path) != bool(self.store_key_path):
            raise OptionError("storeCertPath and storeKeyPath belong together: give both or none")
        if self.store_cert_path and not self.store_ca_path:
            raise OptionError("storeCertPath needs storeCaPath: the store's certificate has to be checked")


_OTHER_ROWS: list[Option] = [
    *without_effect(
        "requests are handled in the turn they arrive in, on one thread: no pools, no queues before them",
        _OWNER,
        ("controllerThreadPoolNums", "int", 16),
        ("controllerRequestThreadPoolQueueCapacity", "int", 50_000),
    ),
    *without_effect(
        "decisions are kept in the consensus store of --store, not in files of the controller",
        _OWNER,
        ("controllerType", "String", "DLedger"),
        ("controllerDLegerGroup", "String", None),
        ("controllerDLegerPeers", "String", None),
        ("controllerDLegerSelfId", "String", None),
        ("controllerStorePath", "String", "$HOME/<controllerType>Controller"),
        ("configStorePath", "String", "$HOME/controller/controller.properties"),
        ("mappedFileSize", "int", 1_073_741_824),
        ("isProcessReadEvent", "boolean", False),
        *(
            Option(f"jRaft{name}", kind, default, owner="JraftConfig")
            for name, kind, default in (
                ("ElectionTimeoutMs", "int", 1000),
                ("ScanWaitTimeoutMs", "int", 1000),
                ("SnapshotIntervalSecs", "int", 3600),
                ("GroupId", "String", "jRaft-Controller"),
                ("ServerId", "String", "localhost:9880"),
                ("InitConf", "String", "localhost:9880,localhost:9881,localhost:9882"),
                ("ControllerRPCAddr", "String", "localhost:9770,localhost:9771,localhost:9772"),
            )
        ),
    ),
    *without_effect(
        "an election that found nobody is tried at every check again",
        _OWNER,
        ("electMasterMaxRetryCount", "int", 3),
        ("scanInactiveMasterInterval", "long", 5000),
    ),
    *without_effect(
        "a place of Apache's installation, of which OrbitMQ has none",
        _OWNER,
        Option("rocketmqHome", "String", None, apache_default="ROCKETMQ_HOME env / rocketmq.home.dir"),
    ),
    *without_effect(
        "metrics are on /metrics of the health port, in Prometheus' text format",
        _OWNER,
        ("metricsExporterType", "MetricsExporterType", "DISABLE"),
        ("metricsGrpcExporterTarget", "String", ""),
        ("metricsGrpcExporterHeader", "String", ""),
        ("metricGrpcExporterTimeOutInMills", "long", 3000),
        ("metricGrpcExporterIntervalInMills", "long", 60_000),
        ("metricLoggingExporterIntervalInMills", "long", 10_000),
        ("metricsPromExporterPort", "int", 5557),
        ("metricsPromExporterHost", "String", ""),
        ("metricsLabel", "String", ""),
        ("metricsInDelta", "boolean", False),
    ),
]

CONTROLLER_TABLE = OptionTable(ControllerSettings, _OTHER_ROWS, NETWORK_ROWS)
"""Every option of a controller."""
