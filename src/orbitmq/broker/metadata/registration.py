"""Registrations with name servers: the whole table, or one topic that just changed.

Pure functions; the server sends the requests and remembers what each name server said.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from orbitmq.broker.metadata.identity import BrokerIdentity
from orbitmq.broker.metadata.snapshots import on_wire, with_items
from orbitmq.broker.metadata.topics import TopicTable
from orbitmq.protocol.bodies.route import RegisterBrokerBody
from orbitmq.protocol.bodies.topic import TopicConfigAndMappingSerializeWrapper
from orbitmq.protocol.codes import PERM_READ, PERM_WRITE
from orbitmq.protocol.requests.route import QueryDataVersion, RegisterBroker, UnregisterBroker

READ_WRITE = PERM_READ | PERM_WRITE
MIN_PERIOD_MS = 10_000
MAX_PERIOD_MS = 60_000


def period_ms(configured_ms: int) -> int:
    """Interval of registrations: registerNameServerPeriod, kept between 10 and 60 s."""
    return max(MIN_PERIOD_MS, min(configured_ms, MAX_PERIOD_MS))


def register_all(
    identity: BrokerIdentity,
    topics: TopicTable,
    broker_permission: int,
    heartbeat_timeout_ms: int | None = None,
    split_size: int | None = None,
) -> list[RegisterBroker]:
    """The requests that register every topic with a name server; several with `split_size`, else one."""
    names = list(topics.by_name)
    size = split_size or max(1, len(names))
    return [
        _request(identity, topics, names[start : start + size], broker_permission, heartbeat_timeout_ms)
        for start in range(0, max(1, len(names)), size)
    ]


def register_changed(
    identity: BrokerIdentity,
    topics: TopicTable,
    changed: Iterable[str],
    broker_permission: int,
    heartbeat_timeout_ms: int | None = None,
) -> RegisterBroker:
    """The request that registers the topics that just changed with a name server.

    A topic that was deleted here is not in it: its row falls with the table's own registration.
    """
    names = [name for name in sorted(changed) if topics.get(name) is not None]
    return _request(identity, topics, names, broker_permission, heartbeat_timeout_ms)


def ask_data_version(identity: BrokerIdentity, topics: TopicTable) -> QueryDataVersion:
    """The question whether a name server has the present table; it also keeps the broker alive there."""
    return QueryDataVersion(
        broker_name=identity.name,
        broker_addr=identity.address,
        cluster_name=identity.cluster,
        broker_id=identity.broker_id,
        body=topics.version.copy(),
    )


def unregister(identity: BrokerIdentity) -> UnregisterBroker:
    """The farewell to a name server."""
    return UnregisterBroker(
        broker_name=identity.name,
        broker_addr=identity.address,
        cluster_name=identity.cluster,
        broker_id=identity.broker_id,
    )


def ordered_topics(order_conf: dict[str, str], broker_name: str) -> set[str]:
    """The topics that a registration's answer (`topic -> "broker:queues;..."`) makes ordered here."""
    return {
        topic
        for topic, conf in order_conf.items()
        if any(item.partition(":")[0] == broker_name for item in conf.split(";"))
    }


def _request(
    identity: BrokerIdentity,
    topics: TopicTable,
    names: list[str],
    broker_permission: int,
    heartbeat_timeout_ms: int | None,
) -> RegisterBroker:
    configs = {name: topics.by_name[name] for name in names}
    if broker_permission & READ_WRITE == READ_WRITE:
        texts = topics.wire_texts(configs)
    else:
        texts = [
            on_wire(name, replace(config, perm=config.perm & broker_permission))
            for name, config in configs.items()
        ]
    # Put together from texts that are kept: it is sent twice a minute and rarely changes.
    wrapper = TopicConfigAndMappingSerializeWrapper(
        data_version=topics.version.copy(), topic_queue_mapping_info_map=topics.static.infos(names)
    )
    body = with_items(RegisterBrokerBody(wrapper).to_json_text(), "topicConfigTable", texts)
    return RegisterBroker(
        broker_name=identity.name,
        broker_addr=identity.address,
        cluster_name=identity.cluster,
        ha_server_addr=identity.ha_address,
        broker_id=identity.broker_id,
        heartbeat_timeout_millis=heartbeat_timeout_ms,
        enable_acting_master=heartbeat_timeout_ms is not None,
        compressed=False,
        body_crc32=0,
        body=body.encode(),
    )
