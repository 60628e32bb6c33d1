"""The rows of a name server: Apache's NamesrvConfig and the network's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from orbitmq.options import InvalidValue, Option, OptionTable, option, refused, without_effect
from orbitmq.options.network import NETWORK_ROWS, NetworkSettings
from orbitmq.options.reporting import ReportingSettings

_OWNER = "NamesrvConfig"


@dataclass(kw_only=True)
class NamesrvSettings(NetworkSettings, ReportingSettings):
    """What one name server is told; handlers read it at every request, so that updates count at once."""

    listen_port: int = option(
        "listenPort",
        "int",
        9876,
        "The port that brokers and clients use.",
        owner="NettyServerConfig",
        minimum=1,
        maximum=65535,
    )
    kv_config_path: str = option(
        "kvConfigPath",
        "String",
        "~/namesrv/kvConfig.json",
        "The file of the key-value configuration.",
        owner=_OWNER,
        apache_default="$HOME/namesrv/kvConfig.json",
    )
    config_store_path: str = option(
        "configStorePath",
        "String",
        "~/namesrv/namesrv.properties",
        "The file that updates of options are written to.",
        owner=_OWNER,
        apache_default="$HOME/namesrv/namesrv.properties",
    )
    config_black_list: str = option(
        "configBlackList",
        "String",
        "configBlackList;configStorePath;kvConfigPath",
        "Properties that may not be changed over the network, with `;` between.",
        owner=_OWNER,
    )
    scan_not_active_broker_interval: int = option(
        "scanNotActiveBrokerInterval",
        "long",
        5000,
        "How often it is looked for brokers that are silent.",
        owner=_OWNER,
        unit="ms",
        minimum=1,
    )
    order_message_enable: bool = option(
        "orderMessageEnable",
        "boolean",
        False,
        "Add a topic's order configuration to its route.",
        owner=_OWNER,
        mutable=True,
    )
    return_order_topic_config_to_broker: bool = option(
        "returnOrderTopicConfigToBroker",
        "boolean",
        True,
        "Answer registrations with the order configuration of topics.",
        owner=_OWNER,
        mutable=True,
    )
    delete_topic_with_broker_registration: bool = option(
        "deleteTopicWithBrokerRegistration",
        "boolean",
        False,
        "Forget a broker's topics that its registration does not name.",
        owner=_OWNER,
        mutable=True,
    )
    enable_all_topic_list: bool = option(
        "enableAllTopicList",
        "boolean",
        True,
        "Answer requests for the names of all topics.",
        owner=_OWNER,
        mutable=True,
    )
    enable_topic_list: bool = option(
        "enableTopicList",
        "boolean",
        True,
        "Answer requests for the topics of a cluster, of the system or of units.",
        owner=_OWNER,
        mutable=True,
    )
    support_acting_master: bool = option(
        "supportActingMaster",
        "boolean",
        False,
        "Give the slave with the lowest id as the master of a group without one.",
        owner=_OWNER,
        mutable=True,
    )
    notify_min_broker_id_changed: bool = option(
        "notifyMinBrokerIdChanged",
        "boolean",
        False,
        "Tell the brokers of a group when its lowest id changes.",
        owner=_OWNER,
        mutable=True,
    )
    need_wait_for_service: bool = option(
        "needWaitForService",
        "boolean",
        False,
        "Give no routes during the first seconds, while brokers come.",
        owner=_OWNER,
        mutable=True,
    )
    wait_seconds_for_service: int = option(
        "waitSecondsForService",
        "int",
        45,
        "How long that is.",
        owner=_OWNER,
        unit="s",
        mutable=True,
        minimum=0,
    )

    def complete(self) -> None:
        super().complete()
        self.kv_config_path = self._file("kvConfigPath", self.kv_config_path)
        self.config_store_path = self._file("configStorePath", self.config_store_path)

    def _file(self, name: str, path: str) -> str:
        if not Path(path).name:
            raise InvalidValue(name, path, "a file", self.sources.get(name, "settings"))
        return str(Path(path).expanduser())


_OTHER_ROWS: list[Option] = [
    *without_effect(
        "requests are handled in the turn they arrive in, on one thread: no pools, no queues before them",
        "NamesrvConfig",
        ("clientRequestThreadPoolNums", "int", 8),
        ("defaultThreadPoolNums", "int", 16),
        ("clientRequestThreadPoolQueueCapacity", "int", 50_000),
        ("defaultThreadPoolQueueCapacity", "int", 10_000),
        ("unRegisterBrokerQueueCapacity", "int", 3000),
    ),
    *without_effect(
        "a place of Apache's installation, of which OrbitMQ has none",
        "NamesrvConfig",
        Option("rocketmqHome", "String", None, apache_default="ROCKETMQ_HOME env / rocketmq.home.dir"),
    ),
    *without_effect(
        "only read together with clusterTest",
        "NamesrvConfig",
        ("productEnvName", "String", "center"),
    ),
    *refused(
        "there is no controller yet",
        "NamesrvConfig",
        ("enableControllerInNamesrv", "boolean", False),
    ),
    *refused(
        "routes of other environments are not asked for",
        "NamesrvConfig",
        ("clusterTest", "boolean", False),
    ),
]

NAMESRV_TABLE = OptionTable(NamesrvSettings, _OTHER_ROWS, NETWORK_ROWS)
"""Every option of a name server."""
