"""The rows of a name server: Apache's NamesrvConfig and the network's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from orbitmq.options import InvalidValue, Long, OptionTable, option
from orbitmq.options.apache import apache_rows
from orbitmq.options.network import NetworkSettings
from orbitmq.options.reporting import ReportingSettings


@dataclass(kw_only=True)
class NamesrvSettings(NetworkSettings, ReportingSettings, owner="NamesrvConfig"):
    """Options of a name server; handlers read them at every request, so updates take effect at once."""

    listen_port: int = option(
        9876, "The port that brokers and clients use.", minimum=1, maximum=65535, owner="NettyServerConfig"
    )
    kv_config_path: str = option(
        "~/namesrv/kvConfig.json",
        "File of the key-value configuration.",
        apache_default="$HOME/namesrv/kvConfig.json",
    )
    config_store_path: str = option(
        "~/namesrv/namesrv.properties",
        "File to which updates of options are written.",
        apache_default="$HOME/namesrv/namesrv.properties",
    )
    config_black_list: str = option(
        "configBlackList;configStorePath;kvConfigPath",
        "Options that may not be changed over the network, separated by `;`.",
    )
    scan_not_active_broker_interval: Long = option(
        5000, "Interval of checks for silent brokers.", unit="ms", minimum=1
    )
    order_message_enable: bool = option(
        False, "Add a topic's order configuration to its route.", mutable=True
    )
    return_order_topic_config_to_broker: bool = option(
        True, "Answer registrations with the order configuration of topics.", mutable=True
    )
    delete_topic_with_broker_registration: bool = option(
        False, "Remove topics of a broker that its registration does not contain.", mutable=True
    )
    enable_all_topic_list: bool = option(True, "Answer requests for the names of all topics.", mutable=True)
    enable_topic_list: bool = option(
        True, "Answer requests for the topics of a cluster, of the system or of units.", mutable=True
    )
    support_acting_master: bool = option(
        False,
        "Put the slave with the lowest id into routes as the master of a group without a master.",
        mutable=True,
    )
    notify_min_broker_id_changed: bool = option(
        False, "Notify the brokers of a group when its lowest id changes.", mutable=True
    )
    need_wait_for_service: bool = option(
        False, "Refuse route requests in the first seconds, while brokers register.", mutable=True
    )
    wait_seconds_for_service: int = option(
        45, "Duration of needWaitForService.", unit="s", mutable=True, minimum=0
    )

    def complete(self) -> None:
        super().complete()
        self.kv_config_path = self._file("kvConfigPath", self.kv_config_path)
        self.config_store_path = self._file("configStorePath", self.config_store_path)

    def _file(self, name: str, path: str) -> str:
        if not Path(path).name:
            raise InvalidValue(name, path, "a file", self.sources.get(name, "settings"))
        return str(Path(path).expanduser())


NAMESRV_TABLE = OptionTable(NamesrvSettings, apache_rows("namesrv", "network"))
"""Every option of a name server."""
