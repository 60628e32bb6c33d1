"""Options of all brokers of a cluster, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orbitmq.admin.admin import Admin, BrokerAt
from orbitmq.admin.brokers import broker_config
from orbitmq.protocol.errors import OrbitError

OWN = frozenset(
    {
        *("brokerName", "brokerId", "brokerIP1", "brokerIP2", "listenPort", "haListenPort", "brokerRole"),
        *("storePathRootDir", "storePathCommitLog", "storePathDLedgerCommitLog", "configStorePath"),
        *("startAcceptSendRequestTimeStamp", "rocketmqHome", "brokerConfigPath", "haMasterAddress"),
    }
)
"""Options that every broker has a value of its own for: that they differ says nothing."""


@dataclass(frozen=True, slots=True)
class OptionValues:
    """One option on every broker that answers."""

    name: str
    values: Sequence[str | None]
    """In the order of the brokers; None where a broker does not have it."""

    @property
    def differs(self) -> bool:
        """True if brokers that have the option do not agree, though they should."""
        return self.name not in OWN and len({value for value in self.values if value is not None}) > 1


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """Options of all brokers."""

    brokers: Sequence[BrokerAt]
    """Those that answer."""
    options: Sequence[OptionValues]
    errors: Mapping[str, str]
    """By address, of those that do not."""


async def cluster_config(
    admin: Admin, cluster: str | None = None, broker: str | None = None
) -> ClusterConfig:
    """Options of all brokers, by name."""

    async def ask(one: BrokerAt) -> dict[str, str] | str:
        try:
            return await broker_config(admin, one.address)
        except OrbitError as error:
            return str(error)

    found = await admin.brokers(cluster, broker)
    configs = list(zip(found, await admin.each(found, ask), strict=True))
    known = [(one, config) for one, config in configs if isinstance(config, dict)]
    names = sorted({name for _, config in known for name in config})
    return ClusterConfig(
        [one for one, _ in known],
        [OptionValues(name, [config.get(name) for _, config in known]) for name in names],
        {one.address: config for one, config in configs if isinstance(config, str)},
    )
