"""The options of a broker's role in its group: of replication, acting slaves and controller mode."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from orbitmq.broker.auth.options import AuthSettings
from orbitmq.broker.metadata.options import IdentityOptions
from orbitmq.broker.role.role import SLAVE
from orbitmq.options import Long, RefusedValue, Settings, option
from orbitmq.options.network import NetworkSettings
from orbitmq.options.option import Value
from orbitmq.store.option_rows import StoreSettings

HA_DISTANCE = 1
"""Distance of a broker's port for slaves from its own, unless haListenPort names another one."""


@dataclass(kw_only=True)
class ReplicationOptions(Settings, owner="MessageStoreConfig"):
    """Options of a broker about its slaves, or about its master."""

    broker_role: str = option(
        "ASYNC_MASTER",
        "ASYNC_MASTER acknowledges a message once it has stored it, SYNC_MASTER once "
        "inSyncReplicas brokers have it. SLAVE follows a master. A running broker can change "
        "its role, with its brokerId.",
        java_type="BrokerRole",
        choices=("ASYNC_MASTER", "SYNC_MASTER", "SLAVE"),
        mutable=True,
    )
    ha_listen_port: int | None = option(
        None,
        "The port on which a master's slaves follow its log.",
        apache_default="listenPort + 1",
        minimum=1,
        maximum=65535,
    )
    ha_master_address: str | None = option(
        None, "HOST:PORT of the master's HA port. If empty, a slave learns it from the name servers."
    )
    ha_send_heartbeat_interval: int = option(
        5000, "Interval of heartbeats between master and slave on an idle connection.", unit="ms", minimum=1
    )
    ha_housekeeping_interval: int = option(
        20_000, "Time without data after which master or slave closes the connection.", unit="ms", minimum=1
    )
    ha_transfer_batch_size: int = option(
        32_768,
        "Maximum of log bytes that a master sends in one transfer.",
        unit="bytes",
        minimum=1,
        mutable=True,
    )
    ha_max_gap_not_in_sync: int = option(
        268_435_456,
        "Maximum of missing log bytes for a slave that counts as in sync.",
        unit="bytes",
        minimum=1,
        mutable=True,
    )
    ha_flow_control_enable: bool = option(
        False, "Limit the transfer to all slaves to maxHaTransferByteInSecond.", mutable=True
    )
    max_ha_transfer_byte_in_second: Long = option(
        104_857_600,
        "Maximum of bytes per second to all slaves together, with haFlowControlEnable.",
        unit="bytes",
        minimum=1,
        mutable=True,
    )
    offset_check_in_slave: bool = option(
        False,
        "A slave corrects the offset of a pull outside of a queue itself. Otherwise it "
        "redirects the pull to its master.",
        mutable=True,
    )
    sync_broker_metadata_period: Long = option(
        5000,
        "Interval at which a slave copies topics, groups, offsets and other tables from its master.",
        unit="ms",
        minimum=100,
        owner="BrokerConfig",
    )
    slave_timeout: int = option(
        3000,
        "Timeout of a send that waits for replicas. Its result is then FLUSH_SLAVE_TIMEOUT.",
        unit="ms",
        minimum=1,
        mutable=True,
    )
    in_sync_replicas: int = option(
        1,
        "Number of brokers of the group, with the master, that must have a message before a "
        "SYNC_MASTER acknowledges it. With 1 it waits for no slave.",
        minimum=1,
        mutable=True,
    )
    min_in_sync_replicas: int = option(
        1,
        "With enableAutoInSyncReplicas: a SYNC_MASTER refuses messages while fewer brokers are in sync.",
        minimum=1,
        mutable=True,
    )
    enable_auto_in_sync_replicas: bool = option(
        False,
        "A SYNC_MASTER waits for no more brokers than are in sync, and for no fewer than minInSyncReplicas.",
        mutable=True,
    )

    all_ack_in_sync_state_set: bool = option(
        False,
        "In controller mode: acknowledge a message once every in-sync replica has it. Without it "
        "inSyncReplicas counts, and an election may lose messages.",
        mutable=True,
    )
    ha_max_time_slave_not_catchup: Long = option(
        15_000,
        "In controller mode: time after which a slave that was not level with the log leaves the "
        "in-sync set.",
        unit="ms",
        minimum=100,
        mutable=True,
    )
    store_path_epoch_file: str | None = option(
        None,
        "File with the epochs of the log, in controller mode.",
        apache_default="storePathRootDir/epochFileCheckpoint",
    )
    store_path_broker_identity: str | None = option(
        None,
        "File with the id that a controller gave this broker.",
        apache_default="storePathRootDir/brokerIdentity",
    )

    ha_tls_enable: bool = option(
        False,
        "Encrypt the HA port: a master takes slaves by TLS only (tls.server.*), a slave connects by TLS "
        "(tls.client.*). Set it at all brokers of a group alike; Apache's brokers cannot be among them.",
        owner="",
    )
    ha_authentication_enable: bool = option(
        False,
        "A master sends its log only to slaves that sign in at the HA port with "
        "innerClientAuthenticationCredentials, and a slave follows only a master that knows them. Set it at "
        "all brokers of a group alike; Apache's brokers cannot be among them.",
        owner="",
    )

    @property
    def is_slave(self) -> bool:
        """True if the broker follows a master."""
        return self.broker_role == SLAVE


@dataclass(kw_only=True)
class GroupOptions(Settings, owner="BrokerConfig"):
    """Options of a broker about the members of its group."""

    enable_slave_acting_master: bool = option(
        False,
        "The slave with the smallest id acts for a master that is away: in routes, for locks and offsets, "
        "and, with enableRemoteEscape, for delayed messages. Set it at all brokers of a group alike; name "
        "servers need supportActingMaster.",
    )
    enable_remote_escape: bool = option(
        False,
        "An acting master sends delayed, timer and half messages, and popped ones that were not "
        "acknowledged, to another master of their topic when they are due. Without it they wait for their "
        "own.",
        mutable=True,
    )
    broker_heartbeat_interval: int = option(
        1000, "Interval of heartbeats to name servers, with enableSlaveActingMaster.", unit="ms", minimum=10
    )
    broker_not_active_timeout_millis: Long = option(
        10_000,
        "Time without a heartbeat after which name servers take a broker for gone, with "
        "enableSlaveActingMaster.",
        unit="ms",
        minimum=10,
    )
    sync_broker_member_group_period: int = option(
        1000,
        "Interval at which a broker asks for the members of its group, with enableSlaveActingMaster.",
        unit="ms",
        minimum=10,
    )


@dataclass(kw_only=True)
class ControllerModeOptions(Settings, owner="BrokerConfig"):
    """Options of a broker whose role a controller decides."""

    enable_controller_mode: bool = option(
        False,
        "Let a controller decide the role of this broker: brokerRole and brokerId follow from it.",
    )
    controller_addr: str = option(
        "", "Controllers: HOST:PORT separated by `;`. Any of them leads to the one that decides."
    )
    check_sync_state_set_period: Long = option(
        5000,
        "Interval at which a master looks whether slaves join or leave the in-sync set; one whose "
        "connection ends leaves it at once.",
        unit="ms",
        minimum=10,
    )
    sync_controller_metadata_period: Long = option(
        10_000,
        "Interval at which a broker asks the controller for its group's master, besides its notices.",
        unit="ms",
        minimum=10,
    )
    controller_heart_beat_timeout_mills: Long = option(
        10_000,
        "Time without a heartbeat after which the controller replaces this broker as master. A master "
        "that no controller answers stops acknowledging after nine tenths of it. OrbitMQ's controllers take "
        "60000 at most.",
        unit="ms",
        minimum=100,
    )
    enable_blind_master: bool = option(
        False,
        "A master that no controller answers stays in the routes, and goes on acknowledging what all members "
        "hold who may be elected. Not safe if a snapshot of the consensus store is restored meanwhile: see "
        "docs/operate/failover.md. Set it at all brokers of a group alike; with authenticationEnabled it "
        "needs haAuthenticationEnable.",
        owner="",
    )
    broker_election_priority: int = option(
        2_147_483_647,
        "Among replicas that hold equally much, the one with the smallest value is elected.",
        minimum=0,
    )


@dataclass(kw_only=True)
class RoleOptions(
    ControllerModeOptions,
    GroupOptions,
    ReplicationOptions,
    AuthSettings,
    IdentityOptions,
    NetworkSettings,
    StoreSettings,
    owner="BrokerConfig",
):
    """Options that decide a broker's role in its group, and the promises of its master."""

    def complete(self) -> None:
        """Raises RefusedValue for values that do not go together."""
        super().complete()
        for name, value, reason in self._contradictions():
            raise RefusedValue(name, value, reason, self.sources.get(name, "settings"))

    def _contradictions(self) -> Iterator[tuple[str, Value, str]]:
        if self.ha_tls_enable and (not self.tls_enable or self.tls_server_mode == "disabled"):
            yield (
                "haTlsEnable",
                True,
                "it needs tls.enable=true, for what a slave asks its master beside the log, and a "
                "tls.server.mode other than disabled, for its certificate",
            )
        if self.ha_authentication_enable and not self.inner_client_authentication_credentials:
            yield (
                "haAuthenticationEnable",
                True,
                "it needs innerClientAuthenticationCredentials, the same at all brokers of the group",
            )
        yield from self._of_a_controller() if self.enable_controller_mode else self._of_a_fixed_role()

    def _of_a_fixed_role(self) -> Iterator[tuple[str, Value, str]]:
        if self.is_slave and self.broker_id == 0:
            reason = "0 is the master of its group: give a slave (brokerRole=SLAVE) an id above 0"
            yield "brokerId", 0, reason
        if not self.is_slave and self.broker_id > 0:
            reason = "a broker with an id above 0 is a slave: set brokerRole=SLAVE, or leave brokerId at 0"
            yield "brokerId", self.broker_id, reason
        if self.all_ack_in_sync_state_set:
            reason = "the in-sync set is a controller's: set enableControllerMode, else inSyncReplicas"
            yield "allAckInSyncStateSet", True, reason
        if self.enable_blind_master:
            reason = "without enableControllerMode no controller elects masters: leave it off"
            yield "enableBlindMaster", True, reason

    def _of_a_controller(self) -> Iterator[tuple[str, Value, str]]:
        if self.enable_blind_master and self.authentication_enabled and not self.ha_authentication_enable:
            yield (
                "enableBlindMaster",
                True,
                "with authenticationEnabled, slaves have to sign in before their word counts: set "
                "haAuthenticationEnable",
            )
        if not self.controller_addr:
            reason = "enableControllerMode needs the controllers' addresses: HOST:PORT separated by `;`"
            yield "controllerAddr", "", reason
        if self.enable_slave_acting_master:
            reason = "a controller elects another master, so no slave acts for it: set one of the two"
            yield "enableSlaveActingMaster", True, reason
