"""Rights that every request to a broker needs: one table of request codes.

Rows follow Apache's 5.4.0 with one rule on top: where that checks nothing beyond who asks, though the request
reads or changes more than its sender's own (`UPDATE_BROKER_CONFIG`, lists of everything, creating groups),
the cluster, the topics or the groups concerned are needed here. `STRICTER` lists them. A request that names
nothing of anybody needs a user with at least one right: someone without any gets nothing and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from orbitmq.broker.auth.policies import ANY_RIGHT, Access, Action, Kind, group_access, topic_access
from orbitmq.protocol.names import REVIVE_TOPIC_PREFIX, TIMER_TOPIC
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.requests.client import Heartbeat
from orbitmq.protocol.requests.group import (
    DeleteSubscriptionGroupList,
    UpdateAndCreateSubscriptiongroup,
    UpdateAndCreateSubscriptiongroupList,
)
from orbitmq.protocol.requests.lite import LiteSubscriptionCtl
from orbitmq.protocol.requests.lock import LockBatchMq, UnlockBatchMq
from orbitmq.protocol.requests.pop import BatchAckMessage, QueryAssignment, SetMessageRequestMode
from orbitmq.protocol.requests.topic import DeleteTopicInBrokerList, UpdateAndCreateTopicList
from orbitmq.protocol.schema.declare import Request

Actions = frozenset[Action]

PUB = frozenset({Action.PUB})
SUB = frozenset({Action.SUB})
SUB_OR_GET = frozenset({Action.SUB, Action.GET})
SUB_OR_UPDATE = frozenset({Action.SUB, Action.UPDATE})
CREATE = frozenset({Action.CREATE})
UPDATE = frozenset({Action.UPDATE})
DELETE = frozenset({Action.DELETE})
GET = frozenset({Action.GET})


@dataclass(slots=True, frozen=True)
class Need:
    """The resources that a request names and the actions on them; each has to be allowed."""

    actions: Actions
    topics: tuple[str, ...] = ()
    """Header fields that hold a topic; several topics may stand in one, with `;` or `,` between."""
    groups: tuple[str, ...] = ()
    further_groups: tuple[tuple[str, Actions], ...] = ()
    """Fields that hold groups with which something else is done."""
    may_lack: tuple[str, ...] = ()
    """Fields that may be absent: then there is nothing to ask for them."""
    cluster: bool = False
    """It is about the whole cluster."""
    body: Callable[[Command, Actions], Iterator[Access]] | None = None
    """Reads what the body names."""
    open_reason: str = ""
    """The reason why every known user may send it."""

    def accesses(self, command: Command, cluster: str) -> list[Access]:
        """The accesses of a request; none if it is open. Raises Refused where its body cannot be read."""
        if self.open_reason:
            return []
        fields = command.ext or {}
        wanted: list[Access] = []
        for name in self.topics:
            for part in self._named(name, fields):
                if self.actions == PUB and _is_obeyed(part):
                    wanted.append(Access(Kind.CLUSTER, cluster, UPDATE))
                else:
                    wanted.append(topic_access(part, self.actions))
        for name, actions in self._groups:
            wanted.extend(group_access(part, actions) for part in self._named(name, fields))
        if self.body is not None:
            wanted.extend(self.body(command, self.actions))
        if self.cluster:
            wanted.append(Access(Kind.CLUSTER, cluster, self.actions))
        return wanted or [ANY_RIGHT]

    @property
    def _groups(self) -> Iterator[tuple[str, Actions]]:
        for name in self.groups:
            yield name, self.actions
        yield from self.further_groups

    @property
    def fields(self) -> tuple[str, ...]:
        """All header fields that name resources."""
        return self.topics + tuple(name for name, _ in self._groups)

    def _named(self, name: str, fields: Mapping[str, str]) -> list[str]:
        text = fields.get(name)
        if text is None:
            return [] if name in self.may_lack else [""]
        separator = _SEPARATORS.get(name)
        if separator is None:
            return [text]
        return [part.strip() for part in text.split(separator) if part.strip()]


_SEPARATORS = {"topicList": ";", "filterGroups": ","}


def _is_obeyed(topic: str) -> bool:
    """True for a topic whose messages the broker obeys: they have it store others wherever they say.

    Brokers of a cluster send there for one another.
    """
    return topic == TIMER_TOPIC or topic.startswith(REVIVE_TOPIC_PREFIX)


def _body(kind: type[Request[Any]], command: Command) -> Any:
    return kind.from_peer(command).body  # type: ignore[attr-defined]


def _heartbeat(command: Command, actions: Actions) -> Iterator[Access]:
    for consumer in _body(Heartbeat, command).consumer_data_set:
        yield group_access(consumer.group_name, actions)
        for subscription in consumer.subscription_data_set:
            yield topic_access(subscription.topic, actions)


def _queues(kind: type[Request[Any]]) -> Callable[[Command, Actions], Iterator[Access]]:
    def read(command: Command, actions: Actions) -> Iterator[Access]:
        body = _body(kind, command)
        yield group_access(body.consumer_group or "", actions)
        for topic in {queue.topic for queue in body.mq_set or ()}:
            yield topic_access(topic, actions)

    return read


def _topic_and_group(kind: type[Request[Any]]) -> Callable[[Command, Actions], Iterator[Access]]:
    def read(command: Command, actions: Actions) -> Iterator[Access]:
        body = _body(kind, command)
        yield topic_access(body.topic or "", actions)
        yield group_access(body.consumer_group or "", actions)

    return read


def _topic_list(command: Command, actions: Actions) -> Iterator[Access]:
    for config in _body(UpdateAndCreateTopicList, command).topic_config_list or ():
        yield topic_access(config.topic_name or "", actions)


def _topics_to_delete(command: Command, actions: Actions) -> Iterator[Access]:
    for topic in _body(DeleteTopicInBrokerList, command).topic_list or ():
        yield topic_access(topic or "", actions)


def _groups_to_delete(command: Command, actions: Actions) -> Iterator[Access]:
    for group in _body(DeleteSubscriptionGroupList, command).group_name_list or ():
        yield group_access(group or "", actions)


def _group(command: Command, actions: Actions) -> Iterator[Access]:
    yield group_access(_body(UpdateAndCreateSubscriptiongroup, command).group_name or "", actions)


def _group_list(command: Command, actions: Actions) -> Iterator[Access]:
    for config in _body(UpdateAndCreateSubscriptiongroupList, command).group_config_list or ():
        yield group_access(config.group_name or "", actions)


def _acks(command: Command, actions: Actions) -> Iterator[Access]:
    for ack in _body(BatchAckMessage, command).acks or ():
        yield topic_access(ack.topic or "", actions)
        yield group_access(ack.consumer_group or "", actions)


def _lite_subscriptions(command: Command, actions: Actions) -> Iterator[Access]:
    for entry in _body(LiteSubscriptionCtl, command).subscription_set or ():
        yield topic_access(entry.topic, actions)
        yield group_access(entry.group, actions)


def _topic(actions: Actions, field: str = "topic", *, lacking: bool = False) -> Need:
    return Need(actions, topics=(field,), may_lack=(field,) if lacking else ())


def _both(actions: Actions, group: str = "consumerGroup", *, lacking: tuple[str, ...] = ()) -> Need:
    return Need(actions, topics=("topic",), groups=(group,), may_lack=lacking)


def _of_group(actions: Actions, field: str = "consumerGroup", *, lacking: bool = False) -> Need:
    return Need(actions, groups=(field,), may_lack=(field,) if lacking else ())


_CLUSTER_GET = Need(GET, cluster=True)
_CLUSTER_UPDATE = Need(UPDATE, cluster=True)

NEEDS: dict[int, Need] = {
    10: _topic(PUB),
    11: _both(SUB),
    12: _topic(SUB_OR_GET),
    14: _both(SUB_OR_GET),
    15: _both(SUB_OR_UPDATE),
    17: _topic(CREATE),
    18: Need(CREATE, body=_topic_list),
    21: _CLUSTER_GET,
    25: _CLUSTER_UPDATE,
    26: _CLUSTER_GET,
    28: _CLUSTER_GET,
    29: _topic(SUB_OR_GET),
    30: _topic(SUB_OR_GET),
    31: _topic(GET),
    32: _topic(GET),
    33: _topic(GET, lacking=True),  # the record's own topic is asked for when it is read
    34: Need(SUB, body=_heartbeat),
    35: _of_group(SUB, lacking=True),  # what it takes off was put there through its own connection
    36: _of_group(SUB, "group"),
    37: _topic(PUB, lacking=True),  # the half message's own topic is asked for when it is read
    38: _of_group(SUB_OR_GET),
    41: Need(SUB, body=_queues(LockBatchMq)),
    42: Need(SUB, body=_queues(UnlockBatchMq)),
    43: _CLUSTER_GET,
    45: _CLUSTER_GET,
    46: Need(GET, open_reason="it asks whether the filter in its own body can be read"),
    60: _CLUSTER_GET,
    61: _CLUSTER_GET,
    200: Need(CREATE, body=_group),
    201: _CLUSTER_GET,
    202: _topic(GET),
    203: _of_group(GET),
    204: _CLUSTER_GET,
    207: _of_group(DELETE, "groupName"),
    208: Need(GET, topics=("topic", "topicList"), groups=("consumerGroup",), may_lack=("topic", "topicList")),
    215: _topic(DELETE),
    222: _both(UPDATE, "group"),
    223: _both(GET, "group"),
    225: Need(CREATE, body=_group_list),
    300: _topic(GET),
    303: _both(GET, "group"),
    305: _CLUSTER_GET,
    306: _CLUSTER_UPDATE,
    307: _of_group(GET),
    308: Need(
        GET,
        topics=("topic",),
        groups=("compareGroup",),
        further_groups=(("filterGroups", UPDATE),),  # their offsets are dropped
        may_lack=("filterGroups",),
    ),
    309: _both(SUB, lacking=("topic",)),
    310: _topic(PUB, "b"),
    314: Need(UPDATE, topics=("topic",), groups=("destGroup",), further_groups=(("srcGroup", GET),)),
    315: _CLUSTER_GET,
    316: _CLUSTER_UPDATE,
    317: _CLUSTER_GET,
    320: _topic(PUB, "b"),
    321: _both(GET, lacking=("consumerGroup",)),
    323: _topic(UPDATE),  # as well
    324: _topic(PUB),
    325: _topic(PUB, "b"),
    328: _CLUSTER_GET,
    329: _CLUSTER_UPDATE,
    343: _of_group(GET, "group"),
    345: _both(GET, "group"),
    351: _topic(GET),
    352: _of_group(GET, "group"),
    353: _both(UPDATE, "group"),
    354: _topic(GET),
    355: _CLUSTER_GET,
    361: _both(SUB),
    370: _topic(PUB),
    400: Need(SUB, body=_topic_and_group(QueryAssignment)),
    401: Need(UPDATE, body=_topic_and_group(SetMessageRequestMode)),
    402: _CLUSTER_GET,
    513: _topic(CREATE),
    905: _CLUSTER_UPDATE,
    906: _CLUSTER_UPDATE,
    907: _CLUSTER_GET,
    908: _CLUSTER_UPDATE,
    1007: _CLUSTER_GET,
    1008: _CLUSTER_UPDATE,
    2001: _CLUSTER_UPDATE,
    2002: _CLUSTER_UPDATE,
    2003: _CLUSTER_GET,
    2004: _CLUSTER_UPDATE,
    3001: _CLUSTER_UPDATE,
    3002: _CLUSTER_UPDATE,
    3003: _CLUSTER_UPDATE,
    3004: _CLUSTER_GET,
    3005: _CLUSTER_GET,
    3006: _CLUSTER_UPDATE,
    3007: _CLUSTER_UPDATE,
    3008: _CLUSTER_UPDATE,
    3009: _CLUSTER_GET,
    3010: _CLUSTER_GET,
    5001: _CLUSTER_UPDATE,
    5002: Need(DELETE, body=_topics_to_delete),
    5003: Need(DELETE, body=_groups_to_delete),
    200050: _both(SUB),
    200051: _both(SUB),
    200052: _both(SUB),
    200053: _both(SUB),
    200054: _both(SUB),
    200055: _both(GET),
    200056: _CLUSTER_UPDATE,
    200070: _both(SUB),
    200071: Need(SUB, body=_lite_subscriptions),
    200074: _CLUSTER_GET,
    200075: _topic(GET),
    200076: _topic(GET, "parentTopic"),
    200077: Need(GET, topics=("parentTopic",), groups=("group",)),
    200078: _of_group(GET, "group"),
    200079: _of_group(UPDATE, "group"),
    200151: Need(SUB, body=_acks),
}
"""Request code -> what it needs. A code that is missing here is for super users only."""

STRICTER: frozenset[int] = frozenset(
    {18, 21, 25, 26, 28, 43, 45, 60, 61, 200, 201, 225, 305, 306, 316, 324, 325, 329, 361, 400, 401, 402}
    | {513, 907}
    | {1007, 2001, 2002, 2003, 2004, 5001, 200056, 200071, 200074, 200151}
)
"""Requests that Apache 5.4.0 lets every known user send."""
