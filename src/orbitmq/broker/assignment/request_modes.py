"""The choice, set by an administrator, between pull and pop for the clients of a group."""

from __future__ import annotations

from orbitmq.broker.metadata.snapshots import Snapshot
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.protocol.bodies.pop import (
    MessageRequestMode,
    MessageRequestModeSerializeWrapper,
    SetMessageRequestModeRequestBody,
)
from orbitmq.protocol.names import RETRY_PREFIX
from orbitmq.protocol.schema.json_body import require_member


class RequestModes:
    """Modes by topic and group; they live in `config/messageRequestMode.json`."""

    FILE = "messageRequestMode.json"
    NAME = "request modes"

    def __init__(self, dirty_tables: DirtyTables, default_mode: str, default_share: int) -> None:
        self._modes: dict[str, dict[str, SetMessageRequestModeRequestBody]] = {}
        self._dirty_tables = dirty_tables
        self._default_mode = MessageRequestMode[default_mode]
        self._default_share = default_share

    def get(self, topic: str, group: str) -> SetMessageRequestModeRequestBody:
        """The mode of a group on a topic: what was set, or the default. Retry topics are pulled."""
        mode = self._modes.get(topic, {}).get(group)
        if mode is not None:
            return mode
        if topic.startswith(RETRY_PREFIX) or self._default_mode is MessageRequestMode.PULL:
            return SetMessageRequestModeRequestBody(topic, group, MessageRequestMode.PULL)
        return SetMessageRequestModeRequestBody(topic, group, self._default_mode, self._default_share)

    def set(self, mode: SetMessageRequestModeRequestBody) -> None:
        """Sets the mode of a group on a topic."""
        self._modes.setdefault(mode.topic, {})[mode.consumer_group] = mode
        self._dirty_tables.mark(self.NAME)

    def to_body(self) -> MessageRequestModeSerializeWrapper:
        return MessageRequestModeSerializeWrapper(
            {topic: dict(modes) for topic, modes in self._modes.items()}
        )

    def snapshot(self) -> Snapshot:
        """The content of `messageRequestMode.json`."""
        return self.to_body().to_pretty_json

    def load_text(self, text: str) -> None:
        """Takes over the content of `messageRequestMode.json`. Raises MalformedJson."""
        require_member(text, "messageRequestModeMap")
        self._modes = MessageRequestModeSerializeWrapper.from_json(text).message_request_mode_map
