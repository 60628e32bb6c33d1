"""The route table: which topics have queues on which brokers, and which brokers live.

Every broker of a group registers for itself: id 0 is the master, others are slaves. Rows of a topic come
from the master, or, where the group may have an acting master, from the member with the smallest id. A broker
lives as long as it registers, or says that it lives, within its time limit, and its connection stands.

Nothing here is kept over a restart: brokers register again within half a minute.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice

from orbitmq.nameserver.brokers import (
    BrokerGroup,
    LiveBroker,
    Master,
    Notice,
    Registration,
    RegistrationRefused,
)
from orbitmq.nameserver.limits import (
    MOST_BROKERS,
    MOST_BROKERS_OF_PEER,
    MOST_FILTER_SERVERS,
    MOST_ROWS,
    MOST_TOPICS_OF_BROKER,
    LimitReached,
    check_name,
)
from orbitmq.protocol.bodies.route import MASTER_ID, ClusterInfo, QueueData, TopicRouteData
from orbitmq.protocol.bodies.static_topic import TopicQueueMappingInfo
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.bodies.version import DataVersion
from orbitmq.protocol.codes import PERM_READ, PERM_WRITE
from orbitmq.protocol.errors import Malformed
from orbitmq.protocol.names import SYNC_MEMBER_TOPIC_PREFIX
from orbitmq.protocol.requests.ha import NotifyMinBrokerIdChange

log = logging.getLogger(__name__)

LIVE_MS = 120_000
"""Time in ms after its last heartbeat at which a broker expires, unless it asks for another one."""

Address = tuple[str, str]
"""Cluster and `host:port`: what a broker is known by while it lives."""


class RouteTable:
    """Topics, broker groups, clusters and living brokers."""

    def __init__(self) -> None:
        self.topics: dict[str, dict[str, QueueData]] = {}
        """Topic -> broker name -> its queues there."""
        self.groups: dict[str, BrokerGroup] = {}
        self.clusters: dict[str, dict[str, None]] = {}
        """Cluster -> its broker names, in the order in which they came."""
        self.live: dict[Address, LiveBroker] = {}
        self.filter_servers: dict[Address, list[str]] = {}
        self.mappings: dict[str, dict[str, TopicQueueMappingInfo]] = {}
        """Static topic -> broker name -> what it leads."""
        self._waiting: dict[Address, dict[str, Registration]] = {}
        """Topics whose row is still to be written, with the registration that named them last."""
        self._notices: list[Notice] = []
        self._rows_of: Counter[str] = Counter()
        """Number of rows by broker name."""
        self._row_count = 0
        self._mapping_count = 0

    # Brokers come.

    def register(
        self, registration: Registration, now: int, *, delete_absent: bool = False, notify: bool = False
    ) -> Master | None:
        """Takes a broker in, or its news; for a slave gives its living master.

        The rows of its topics are only noted: `take_rows` writes them. With `delete_absent` topics that the
        broker no longer names lose their rows; with `notify` members hear of a new smallest id. Raises
        RegistrationRefused, LimitReached.
        """
        group = self.groups.get(registration.broker_name)
        if group is None:
            group = BrokerGroup(registration.cluster, registration.broker_name)
        smallest_before = min(group.addresses, default=None)
        if self._is_outdated(group, registration):
            self.live.pop((registration.cluster, registration.address), None)
            self._waiting.pop((registration.cluster, registration.address), None)
            return None
        known = group.addresses.get(registration.broker_id)
        if known is None and len(registration.topics) == 1:
            raise RegistrationRefused(registration.broker_name)
        self._check_bounds(registration)
        live = self.live.get((registration.cluster, registration.address))
        if live is not None and live.broker_name != registration.broker_name:
            # One address is one broker: under its old name it would stay in routes for ever.
            self.unregister(registration.cluster, live.broker_name, registration.address, notify=notify)
        if known is not None and known != registration.address:
            self._warn_of_two(registration, known)
        self._join(group, registration)
        first = known is None
        is_master = registration.broker_id == MASTER_ID
        is_prime_slave = (
            registration.enable_acting_master is not None
            and not is_master
            and registration.broker_id == min(group.addresses)
        )
        if is_master or is_prime_slave:
            registration.may_write = is_master or not group.enable_acting_master
            self._note_topics(registration, first, delete_absent)
        self._note_alive(registration, now)
        if notify and smallest_before is not None and registration.broker_id < smallest_before:
            self._notify(group, None, registration.ha_address)
        return None if is_master else self._master_of(group)

    def take_rows(self, cluster: str, address: str, most: int) -> bool:
        """Writes up to `most` rows that a broker's registrations brought. True if none is left.

        A row stands for the registration that named its topic last. Raises Malformed, and forgets the rest.
        """
        waiting = self._waiting.get((cluster, address))
        if waiting is None:
            return True
        try:
            for topic in list(islice(waiting, most)):
                registration = waiting.pop(topic)
                row = _row(registration.broker_name, registration.topics[topic])
                if not registration.may_write:
                    row.perm &= ~PERM_WRITE
                self._put_row(topic, row)
        except Malformed:
            waiting.clear()
            raise
        finally:
            if not waiting:
                del self._waiting[cluster, address]
        return not waiting

    def _put_row(self, topic: str, row: QueueData) -> None:
        rows = self.topics.setdefault(topic, {})
        if row.broker_name not in rows:
            self._rows_of[row.broker_name] += 1
            self._row_count += 1
        rows[row.broker_name] = row

    def _note_row_gone(self, broker_name: str) -> None:
        self._row_count -= 1
        self._rows_of[broker_name] -= 1
        if not self._rows_of[broker_name]:
            del self._rows_of[broker_name]

    def _check_bounds(self, registration: Registration) -> None:
        """Raises LimitReached for a broker that would take a table beyond its bound."""
        name, key = registration.broker_name, (registration.cluster, registration.address)
        for what, text in (
            ("the cluster's name", registration.cluster),
            ("the broker's name", name),
            ("the broker's address", registration.address),
            ("the broker's HA address", registration.ha_address or ""),
        ):
            check_name(text, what)
        if len(registration.filter_servers) > MOST_FILTER_SERVERS:
            raise LimitReached(f"a broker has {MOST_FILTER_SERVERS} filter servers at most")
        if key not in self.live:
            self._check_brokers(registration)
        fresh = 0
        for topic in registration.topics:
            if name not in self.topics.get(topic, ()):
                check_name(topic, "the name of a topic")
                fresh += 1
        waiting = sum(map(len, self._waiting.values()))
        own = self._rows_of[name] + fresh + len(self._waiting.get(key, ()))
        if fresh and own > MOST_TOPICS_OF_BROKER:
            raise LimitReached(f"a broker has {MOST_TOPICS_OF_BROKER} topics at most in a name server")
        if fresh and self._row_count + waiting + fresh > MOST_ROWS:
            raise LimitReached(f"a name server has {MOST_ROWS} rows at most, over all topics and brokers")
        if registration.mappings and self._mapping_count + len(registration.mappings) > MOST_ROWS:
            raise LimitReached(f"a name server has {MOST_ROWS} mappings of static topics at most")

    def _check_brokers(self, registration: Registration) -> None:
        if len(self.live) >= MOST_BROKERS:
            raise LimitReached(f"a name server has {MOST_BROKERS} brokers at most")
        if registration.broker_name not in self.groups and len(self.groups) >= MOST_BROKERS:
            raise LimitReached(f"a name server has {MOST_BROKERS} broker groups at most")
        if registration.cluster not in self.clusters and len(self.clusters) >= MOST_BROKERS:
            raise LimitReached(f"a name server has {MOST_BROKERS} clusters at most")
        host = registration.host
        if sum(one.host == host for one in self.live.values()) >= MOST_BROKERS_OF_PEER:
            raise LimitReached(f"{MOST_BROKERS_OF_PEER} brokers are registered from {host} already")

    def _is_outdated(self, group: BrokerGroup, registration: Registration) -> bool:
        """True if another address holds the id, with a newer state version."""
        holder = group.addresses.get(registration.broker_id)
        if holder is None or holder == registration.address:
            return False
        live = self.live.get((registration.cluster, holder))
        return live is not None and live.version.state_version > registration.version.state_version

    def _warn_of_two(self, registration: Registration, known: str) -> None:
        """Warns where a broker comes under the id of another that lives: the later one counts, as Apache's
        name servers have it, so that a broker may move; two that both run would take turns in the routes.
        """
        if (registration.cluster, known) in self.live:
            log.warning(
                "%s registers as id %d of broker group %s, as %s did, whose last sign is not long ago: the "
                "later one counts. If both run, give one another brokerName (or, of slaves, brokerId)",
                registration.address,
                registration.broker_id,
                registration.broker_name,
                known,
            )

    def _join(self, group: BrokerGroup, registration: Registration) -> None:
        self.groups[group.name] = group
        self.clusters.setdefault(registration.cluster, {})[group.name] = None
        group.enable_acting_master = bool(registration.enable_acting_master)
        group.zone_name = registration.zone_name
        # A slave that became master keeps its address: it may not stay under its old id too.
        for broker_id, address in list(group.addresses.items()):
            if address == registration.address and broker_id != registration.broker_id:
                del group.addresses[broker_id]
        group.addresses[registration.broker_id] = registration.address

    def _note_topics(self, registration: Registration, first: bool, delete_absent: bool) -> None:
        name = registration.broker_name
        if delete_absent and not registration.mappings:
            for topic in [topic for topic, rows in self.topics.items() if name in rows]:
                if topic not in registration.topics:
                    self._drop_row(topic, name)
        all_news = first or self.is_changed(registration.cluster, registration.address, registration.version)
        rows = [topic for topic in registration.topics if all_news or name not in self.topics.get(topic, ())]
        if rows:
            waiting = self._waiting.setdefault((registration.cluster, registration.address), {})
            waiting.update(dict.fromkeys(rows, registration))
        for topic, mapping in registration.mappings.items():
            leaders = self.mappings.setdefault(topic, {})
            if all_news or mapping.bname not in leaders:
                self._mapping_count += mapping.bname not in leaders
                leaders[mapping.bname] = mapping

    def _note_alive(self, registration: Registration, now: int) -> None:
        key = (registration.cluster, registration.address)
        self.live[key] = LiveBroker(
            registration.broker_name,
            now,
            LIVE_MS if registration.timeout_ms is None else registration.timeout_ms,
            registration.version,
            registration.connection_id,
            registration.ha_address,
            registration.host,
        )
        if registration.filter_servers:
            self.filter_servers[key] = registration.filter_servers
        else:
            self.filter_servers.pop(key, None)

    def _master_of(self, group: BrokerGroup) -> Master | None:
        address = group.addresses.get(MASTER_ID)
        live = None if address is None else self.live.get((group.cluster, address))
        return None if address is None or live is None else Master(address, live.ha_address)

    def is_changed(self, cluster: str, address: str, version: DataVersion | None) -> bool:
        """True if a broker's table of topics differs from the one it registered."""
        live = self.live.get((cluster, address))
        return live is None or live.version != version

    def touch(self, cluster: str, address: str, now: int) -> DataVersion | None:
        """A sign of life; gives the version that the broker registered with, None if it is not known."""
        live = self.live.get((cluster, address))
        if live is None:
            return None
        live.last_ms = now
        return live.version

    # Brokers go.

    def unregister(self, cluster: str, broker_name: str, address: str, *, notify: bool = False) -> None:
        """Takes a broker out, whatever id it has."""
        self.live.pop((cluster, address), None)
        self.filter_servers.pop((cluster, address), None)
        self._waiting.pop((cluster, address), None)
        group = self.groups.get(broker_name)
        if group is None:
            return
        gone = [broker_id for broker_id, known in group.addresses.items() if known == address]
        was_smallest = bool(gone) and min(group.addresses) in gone
        for broker_id in gone:
            del group.addresses[broker_id]
        if not group.addresses:
            self._drop_group(group)
            return
        if group.enable_acting_master and not group.has_master:
            for rows in self.topics.values():
                if broker_name in rows:
                    rows[broker_name].perm &= ~PERM_WRITE
        if notify and was_smallest:
            self._notify(group, address, None)

    def _drop_group(self, group: BrokerGroup) -> None:
        del self.groups[group.name]
        # Members may have registered with several clusters.
        for cluster, names in [*self.clusters.items()]:
            if names.pop(group.name, "") is None and not names:
                del self.clusters[cluster]
        for topic in [topic for topic, rows in self.topics.items() if group.name in rows]:
            self._drop_row(topic, group.name)

    def expire(self, now: int, *, notify: bool = False) -> list[int]:
        """Takes out brokers that gave no sign in time; gives the connections to close."""
        expired = [(key, live) for key, live in self.live.items() if live.is_expired(now)]
        for (cluster, address), live in expired:
            self.unregister(cluster, live.broker_name, address, notify=notify)
        return [live.connection_id for _, live in expired]

    def connection_closed(self, connection_id: int, *, notify: bool = False) -> None:
        """Takes out the brokers that registered over this connection."""
        for (cluster, address), live in list(self.live.items()):
            if live.connection_id == connection_id:
                self.unregister(cluster, live.broker_name, address, notify=notify)

    def _notify(self, group: BrokerGroup, offline: str | None, ha_address: str | None) -> None:
        """Members hear who has the smallest id now; all of them if one went, else all but the new one."""
        smallest = min(group.addresses)
        notice = NotifyMinBrokerIdChange(
            min_broker_id=smallest,
            broker_name=group.name,
            min_broker_addr=group.addresses[smallest],
            offline_broker_addr=offline,
            ha_broker_addr=ha_address,
        )
        for broker_id, address in group.addresses.items():
            if offline is not None or broker_id != smallest:
                self._notices.append(Notice(address, notice))

    def drain_notices(self) -> list[Notice]:
        """Notifications for brokers since the last call."""
        notices, self._notices = self._notices, []
        return notices

    # Topics.

    def _drop_row(self, topic: str, broker_name: str) -> None:
        rows = self.topics[topic]
        del rows[broker_name]
        self._note_row_gone(broker_name)
        if not rows:
            del self.topics[topic]
        # Else a topic of this name that is made later would be a static one for its clients.
        mappings = self.mappings.get(topic, {})
        if mappings.pop(broker_name, None) is not None:
            self._mapping_count -= 1
            if not mappings:
                del self.mappings[topic]

    def rows_of(self, broker_name: str) -> Iterator[QueueData]:
        """The rows of all topics on one broker."""
        return (rows[broker_name] for rows in self.topics.values() if broker_name in rows)

    def wipe_write_perm(self, broker_name: str) -> int:
        """No topic of the broker takes messages any more; gives the number of topics."""
        rows = list(self.rows_of(broker_name))
        for row in rows:
            row.perm &= ~PERM_WRITE
        return len(rows)

    def add_write_perm(self, broker_name: str) -> int:
        """Every topic of the broker is read and written again; gives the number of topics."""
        rows = list(self.rows_of(broker_name))
        for row in rows:
            row.perm = PERM_READ | PERM_WRITE
        return len(rows)

    def put_rows(self, topic: str, rows: Iterable[QueueData]) -> None:
        """Adds or replaces rows of a topic; those of unknown brokers are left out. Raises LimitReached."""
        known = {row.broker_name: row for row in rows if row.broker_name in self.groups}
        if not known:
            return
        check_name(topic, "the name of the topic")
        there = self.topics.get(topic, {})
        fresh = [name for name in known if name not in there]
        if any(self._rows_of[name] >= MOST_TOPICS_OF_BROKER for name in fresh):
            raise LimitReached(f"a broker has {MOST_TOPICS_OF_BROKER} topics at most in a name server")
        if self._row_count + len(fresh) > MOST_ROWS:
            raise LimitReached(f"a name server has {MOST_ROWS} rows at most, over all topics and brokers")
        for row in known.values():
            self._put_row(topic, row)

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Forgets a topic, or its rows on brokers of one cluster."""
        if not cluster:
            for broker_name in self.topics.pop(topic, ()):
                self._note_row_gone(broker_name)
            self._mapping_count -= len(self.mappings.pop(topic, ()))
            return
        for broker_name in self.clusters.get(cluster, ()):
            if broker_name in self.topics.get(topic, ()):
                self._drop_row(topic, broker_name)

    def topics_of_cluster(self, cluster: str) -> list[str]:
        """Topics with queues on a broker of the cluster."""
        names = self.clusters.get(cluster, {})
        return [topic for topic, rows in self.topics.items() if any(name in names for name in rows)]

    def topics_with(self, flag: int, without: int = 0) -> list[str]:
        """Topics whose first row has the bits of `flag` and none of `without` in its system flag."""
        found = []
        for topic, rows in self.topics.items():
            sys_flag = next(iter(rows.values())).topic_sys_flag
            if sys_flag & flag and not sys_flag & without:
                found.append(topic)
        return found

    # Views.

    def route(self, topic: str, *, support_acting_master: bool = False) -> TopicRouteData | None:
        """The route of a topic; None without queues, or without a known broker."""
        rows = self.topics.get(topic)
        if not rows:
            return None
        groups = [self.groups[name] for name in rows if name in self.groups]
        if not groups:
            return None
        brokers = [group.to_data() for group in groups]
        if support_acting_master and not topic.startswith(SYNC_MEMBER_TOPIC_PREFIX):
            for group, broker in zip(groups, brokers, strict=True):
                if _is_acted_for(group, rows[group.name]):
                    broker.broker_addrs = _with_acting_master(group.addresses)
        filters = {
            address: self.filter_servers[group.cluster, address]
            for group in groups
            for address in group.addresses.values()
            if (group.cluster, address) in self.filter_servers
        }
        return TopicRouteData(
            queue_datas=[replace(row) for row in rows.values()],
            broker_datas=brokers,
            filter_server_table=filters,
            topic_queue_mapping_by_broker=self.mappings.get(topic),
        )

    def cluster_info(self) -> ClusterInfo:
        """All groups and clusters."""
        return ClusterInfo(
            {name: group.to_data() for name, group in self.groups.items()},
            {cluster: list(names) for cluster, names in self.clusters.items()},
        )

    def any_address(self) -> str | None:
        """The address of some broker."""
        return next((address for group in self.groups.values() for address in group.addresses.values()), None)


def _row(broker_name: str, config: TopicConfig) -> QueueData:
    return QueueData(
        broker_name, config.read_queue_nums, config.write_queue_nums, config.perm, config.topic_sys_flag
    )


def _is_acted_for(group: BrokerGroup, row: QueueData) -> bool:
    return group.enable_acting_master and not group.has_master and not row.perm & PERM_WRITE


def _with_acting_master(addresses: dict[int, str]) -> dict[int, str]:
    """The smallest id stands as the master, under id 0."""
    acting = min(addresses)
    return {MASTER_ID if broker_id == acting else broker_id: addr for broker_id, addr in addresses.items()}
