"""Topics: their configuration, tables of it, static mappings of logical queues, lists of names."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from orbitmq.protocol.bodies.version import DataVersion
from orbitmq.protocol.schema.json_body import JsonBody, Long


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
class LogicQueueMappingItem(JsonBody):
    """A stretch of a logical queue's offsets and the physical queue that holds it."""

    gen: int = 0
    queue_id: int = 0
    bname: str = ""
    logic_offset: Long = 0
    start_offset: Long = 0
    end_offset: Long = -1
    """-1: open."""
    time_of_start: Long = -1
    time_of_end: Long = -1


@dataclass(slots=True)
class TopicQueueMappingInfo(JsonBody):
    """Queues of a static topic that a broker leads: `curr_id_map` is global id -> physical id."""

    topic: str = ""
    scope: str = "__global__"
    total_queues: int = 0
    bname: str = ""
    epoch: Long = 0
    dirty: bool = False
    curr_id_map: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class TopicQueueMappingDetail(TopicQueueMappingInfo):
    """The same with the history of each queue hosted by the broker."""

    hosted_queues: dict[int, list[LogicQueueMappingItem]] = field(default_factory=dict)


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
