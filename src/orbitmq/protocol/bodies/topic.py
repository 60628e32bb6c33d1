"""Topics: their configuration, tables of it, lists of names."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from orbitmq.protocol.bodies.static_topic import TopicQueueMappingDetail, TopicQueueMappingInfo
from orbitmq.protocol.bodies.version import DataVersion
from orbitmq.protocol.schema.json_body import JsonBody, Long

MAX_QUEUES = 100_000
"""Queues of a topic on one broker, and of a static topic: every client has all of them in memory."""


class TopicFilterType(IntEnum):
    """The number of tags of a message; every peer writes SINGLE_TAG."""

    SINGLE_TAG = 0
    MULTI_TAG = 1


@dataclass(slots=True)
class TopicConfig(JsonBody):
    """A topic on one broker.

    In update requests attribute keys have a sign (`+key`, `-key`); in stored configs they have none.
    """

    topic_name: str = ""
    read_queue_nums: int = 16
    write_queue_nums: int = 16
    perm: int = 6
    topic_filter_type: TopicFilterType | None = TopicFilterType.SINGLE_TAG
    topic_sys_flag: int = 0
    """Bit 1: unit topic; bit 2: a subscriber of it is in a unit."""
    order: bool = False
    attributes: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class TopicConfigSerializeWrapper(JsonBody):
    """The table of topics, as `topics.json` holds it."""

    topic_config_table: dict[str, TopicConfig] = field(default_factory=dict)
    data_version: DataVersion = field(default_factory=DataVersion)


@dataclass(slots=True)
class TopicConfigAndQueueMapping(TopicConfig):
    """A topic with its static mapping, which is there only for static topics."""

    mapping_detail: TopicQueueMappingDetail | None = None


@dataclass(slots=True)
class TopicConfigAndMappingSerializeWrapper(TopicConfigSerializeWrapper):
    """The table of topics with static mappings.

    A registration carries them as infos, an answer to GET_ALL_TOPIC_CONFIG as details.
    """

    topic_queue_mapping_info_map: dict[str, TopicQueueMappingInfo] = field(default_factory=dict)
    topic_queue_mapping_detail_map: dict[str, TopicQueueMappingDetail] = field(default_factory=dict)
    mapping_data_version: DataVersion = field(default_factory=DataVersion)


@dataclass(slots=True)
class TopicRemappingDetailWrapper(JsonBody):
    """A plan of a static topic's mappings, as `mqadmin` keeps it in a file."""

    topic: str | None = None
    type: str | None = None
    """`CREATE_OR_UPDATE` or `REMAPPING`."""
    epoch: Long = 0
    broker_config_map: dict[str, TopicConfigAndQueueMapping] = field(default_factory=dict)
    """Broker name -> its part of the topic."""
    broker_to_map_in: list[str] = field(default_factory=list)
    broker_to_map_out: list[str] = field(default_factory=list)


@dataclass(slots=True)
class CreateTopicListRequestBody(JsonBody):
    """Topics to create or change in one request."""

    topic_config_list: list[TopicConfig] | None = None


@dataclass(slots=True)
class DeleteTopicListRequestBody(JsonBody):
    """Topics to delete."""

    topic_list: list[str] | None = None


@dataclass(slots=True)
class TopicList(JsonBody):
    """Names of topics; of clusters and brokers too in the name server's system topic list."""

    topic_list: list[str] = field(default_factory=list)
    broker_addr: str | None = None
