"""The members of broker groups: their make, options, logs and tables, as they say themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from orbitmq.admin.admin import Admin, BrokerAt, NoBroker
from orbitmq.admin.brokers import broker_config
from orbitmq.net.errors import NetError
from orbitmq.protocol.errors import BrokerRefused, NoPermission
from orbitmq.protocol.requests.admin import GetBrokerRuntimeInfo
from orbitmq.protocol.requests.offset import GetAllConsumerOffset
from orbitmq.protocol.requests.topic import GetAllTopicConfig, GetTopicStatsInfo

APACHE, ORBITMQ = "apache", "orbitmq"
MAKES = {APACHE: "Apache RocketMQ", ORBITMQ: "OrbitMQ"}
OWN_FIGURE = "unflushedBytes"
"""A figure that OrbitMQ's brokers report and Apache's do not."""

Offsets = Mapping[str, Mapping[int, int]]
"""Queue offsets by topic, or by `topic@group`, and queue id."""


@dataclass(frozen=True, slots=True)
class Replica:
    """One broker of a group. `error`, behind its address, says why nothing else is known."""

    at: BrokerAt
    make: str = ""
    figures: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    error: str = ""

    @property
    def version(self) -> str:
        return self.figures.get("brokerVersionDesc", "")

    @property
    def log_begin(self) -> int:
        """Physical offset of the first byte of the log."""
        return int(self.figures.get("commitLogMinOffset") or 0)

    @property
    def log_end(self) -> int:
        """Physical offset behind the last byte of the log."""
        return int(self.figures.get("commitLogMaxOffset") or 0)

    def __str__(self) -> str:
        return f"{MAKES.get(self.make, 'broker')} {self.at.address}"


@dataclass(frozen=True, slots=True)
class GroupSurvey:
    """A broker group by the reports of its members."""

    name: str
    members: tuple[Replica, ...]

    @property
    def master(self) -> Replica | None:
        return next((one for one in self.members if one.at.broker_id == 0), None)

    def slaves(self, make: str = "") -> list[Replica]:
        return [one for one in self.members if one.at.broker_id and not one.error and make in ("", one.make)]


async def read_member(admin: Admin, at: BrokerAt) -> Replica:
    """A broker's answers about itself."""
    try:
        figures = (await admin.call(at.address, GetBrokerRuntimeInfo())).body.table
        options = await broker_config(admin, at.address)
    except NetError as error:
        return Replica(at, error=f"does not answer: {error}")
    except BrokerRefused as error:
        advice = "; give --access-key and --secret-file of a super user"
        return Replica(at, error=f"refuses: {error}{advice if isinstance(error, NoPermission) else ''}")
    return Replica(at, ORBITMQ if OWN_FIGURE in figures else APACHE, figures, options)


async def survey(admin: Admin, cluster: str | None = None, group: str | None = None) -> list[GroupSurvey]:
    """All groups, of a cluster, or the one of a name. Raises NoBroker."""
    brokers = await admin.brokers(cluster, group)
    members = await admin.each(brokers, lambda at: read_member(admin, at))
    names = sorted({one.name for one in brokers})
    return [GroupSurvey(name, tuple(one for one in members if one.at.name == name)) for name in names]


async def survey_one(admin: Admin, group: str) -> GroupSurvey:
    """One group. Raises NoBroker."""
    found = [one for one in await survey(admin, None, group) if one.name == group]
    if not found:
        raise NoBroker(f"{group} is no broker group")
    return found[0]


# Tables of a broker.


async def topics_of(admin: Admin, address: str) -> set[str]:
    """The topics that a broker has."""
    body = (await admin.call(address, GetAllTopicConfig())).body
    return set() if body is None else set(body.topic_config_table)


async def consumed(admin: Admin, address: str) -> Offsets:
    """The offsets of all groups, by `topic@group`."""
    body = (await admin.call(address, GetAllConsumerOffset())).body
    return {} if body is None else body.offset_table


async def queue_ends(admin: Admin, address: str, topics: set[str]) -> dict[str, dict[int, tuple[int, int]]]:
    """First and next queue offset of every queue, by topic; without topics that a broker does not show."""

    async def ask(topic: str) -> tuple[str, dict[int, tuple[int, int]]]:
        try:
            table = (await admin.call(address, GetTopicStatsInfo(topic))).body.offset_table
        except BrokerRefused:
            return topic, {}
        return topic, {queue.queue_id: (one.min_offset, one.max_offset) for queue, one in table.items()}

    return dict(await admin.each(sorted(topics), ask))


def behind(master: Offsets, slave: Offsets) -> list[str]:
    """The `topic@group` of which a slave's offset is behind its master's."""
    return sorted(
        key
        for key, queues in master.items()
        if any(slave.get(key, {}).get(queue, 0) < offset for queue, offset in queues.items())
    )


async def lag_of(admin: Admin, master: Replica, slave: Replica) -> str:
    """Parts of its master's log, topics and offsets that a slave lacks; empty if it lacks nothing."""
    gap = master.log_end - slave.log_end
    if gap > 0:
        return f"it lacks {gap:,} bytes of the log"
    lacking = await topics_of(admin, master.at.address) - await topics_of(admin, slave.at.address)
    if lacking:
        return f"it has not got {', '.join(sorted(lacking)[:5])} yet"
    late = behind(await consumed(admin, master.at.address), await consumed(admin, slave.at.address))
    return f"its offsets of {', '.join(late[:5])} are behind" if late else ""
