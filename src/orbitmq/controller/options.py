"""The rows of a controller: Apache's ControllerConfig, the network's, and the consensus store's."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.handling.credentials import first_user, own_credentials
from orbitmq.options import (
    Long,
    OptionError,
    OptionTable,
    Settings,
    option,
)
from orbitmq.options.apache import apache_rows
from orbitmq.options.network import NetworkSettings
from orbitmq.options.reporting import ReportingSettings

_OWNER = "ControllerConfig"
DEFAULT_PORT = 19876


@dataclass(kw_only=True)
class ConsensusSettings(Settings):
    """The consensus store, and the lease in it: OrbitMQ's own options."""

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
    store_cert_path: str = option("", "Own certificate for the consensus store.")
    store_key_path: str = option("", "Key of that certificate.")

    @property
    def store_group(self) -> str:
        """Name of those who share the prefix; others are refused."""
        return "orbitmq"

    def complete(self) -> None:
        """Raises OptionError for files that do not go together."""
        super().complete()
        self.store_prefix = self.store_prefix.rstrip("/")
        if bool(self.store_cert_path) != bool(self.store_key_path):
            raise OptionError("storeCertPath and storeKeyPath belong together: give both or none")
        if self.store_cert_path and not self.store_ca_path:
            raise OptionError("storeCertPath needs storeCaPath: the store's certificate has to be checked")


@dataclass(kw_only=True)
class StoreSettings(ConsensusSettings):
    """The place of a controller in the consensus store: OrbitMQ's own options."""

    advertised_address: str = option(
        "", "Address given to brokers and tools, `host:port`; the listen address if empty."
    )
    controller_group: str = option(
        "orbitmq", "Name of this cluster of controllers. A prefix that another group uses is refused."
    )
    controller_id: str = option("", "Name of this controller among the others; its address if empty.")

    @property
    def store_group(self) -> str:
        """Name of those who share the prefix; others are refused."""
        return self.controller_group


@dataclass(kw_only=True)
class AccessSettings(Settings):
    """Users of a controller, which keeps no others: OrbitMQ's own options, named as those of brokers."""

    authentication_enabled: bool = option(
        False,
        "Serve only requests that are signed: brokers sign with innerClientAuthenticationCredentials, and "
        "the user of initAuthenticationUser may do everything.",
    )
    init_authentication_user: str | None = option(
        None,
        "The super user, who alone may elect, remove members and set options: "
        '{"username":"...","password":"..."}.',
        secret=True,
    )
    inner_client_authentication_credentials: str | None = option(
        None,
        "Credentials that brokers sign with, the same as in their options; the controller signs its notices "
        'to brokers with them: {"accessKey":"...","secretKey":"..."}.',
        secret=True,
    )

    def complete(self) -> None:
        """Raises OptionError for users that cannot be read or go together; secrets are not in its text."""
        super().complete()
        for name, read in (
            ("initAuthenticationUser", first_user),
            ("innerClientAuthenticationCredentials", own_credentials),
        ):
            try:
                read(self)
            except OptionError as error:
                raise OptionError(f"{self.sources.get(name, 'settings')}: {error}") from None
        operator, brokers = first_user(self), own_credentials(self)
        if self.authentication_enabled and brokers is None:
            raise OptionError(
                "authenticationEnabled needs innerClientAuthenticationCredentials: brokers sign with them"
            )
        if operator and brokers and operator.access_key == brokers.access_key:
            raise OptionError(
                "initAuthenticationUser and innerClientAuthenticationCredentials name the same user: brokers "
                "would be allowed what is for operators"
            )


@dataclass(kw_only=True)
class ControllerSettings(NetworkSettings, ReportingSettings, StoreSettings, AccessSettings, owner=_OWNER):
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


CONTROLLER_TABLE = OptionTable(ControllerSettings, apache_rows("controller", "network"))
"""Every option of a controller."""
