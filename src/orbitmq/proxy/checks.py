"""Limits and forms of what clients send, as Apache's proxy has them."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from orbitmq.protocol.names import (
    DLQ_PREFIX,
    RESERVED_PROPERTIES,
    RETRY_PREFIX,
    IllegalName,
    check_group,
    check_topic,
    is_system_group,
    is_system_topic,
)
from orbitmq.proxy.errors import ProxyRefused
from orbitmq.proxy.options import ProxySettings
from orbitmq.proxy.wire import messaging_pb2 as pb

MS_PER_SECOND = 1000
CLIENT_TYPES = frozenset(pb.ClientType.values()) - {pb.CLIENT_TYPE_UNSPECIFIED}
"""Types of clients that this proxy knows."""
_LITE_TOPIC = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


def topic_name(resource: pb.Resource) -> str:
    """The topic that a client names. Raises ProxyRefused."""
    name = resource.name
    try:
        check_topic(name)
    except IllegalName as error:
        raise ProxyRefused(pb.ILLEGAL_TOPIC, str(error)) from None
    if is_system_topic(name):
        raise ProxyRefused(pb.ILLEGAL_TOPIC, f"cannot access system topic: {name}")
    return name


def group_name(resource: pb.Resource) -> str:
    """The consumer group that a client names. Raises ProxyRefused."""
    name = resource.name
    try:
        check_group(name)
    except IllegalName as error:
        raise ProxyRefused(pb.ILLEGAL_CONSUMER_GROUP, str(error)) from None
    if is_system_group(name):
        raise ProxyRefused(pb.ILLEGAL_CONSUMER_GROUP, f"cannot use system group: {name}")
    return name


def check_lite_topic(name: str, most_bytes: int) -> None:
    """Raises ProxyRefused for a name that no lite topic may have."""
    if not name.strip():
        reason = "lite topic cannot be the char sequence of whitespace"
    elif len(name.encode()) > most_bytes:
        reason = f"lite topic exceed the max size {most_bytes}"
    elif not _LITE_TOPIC.fullmatch(name):
        reason = "lite topic can only contain alphanumeric characters, hyphens(-), and underscores(_)"
    else:
        return
    raise ProxyRefused(pb.ILLEGAL_LITE_TOPIC, reason)


def duration_ms(duration: object) -> int:
    """The milliseconds of a Duration or Timestamp."""
    return int(duration.seconds) * MS_PER_SECOND + int(duration.nanos) // 1_000_000  # type: ignore[attr-defined]


def check_invisible_time(asked_ms: int, low_ms: int, high_ms: int) -> None:
    """Raises ProxyRefused, in words that programs know from Apache's proxy."""
    if asked_ms < low_ms:
        raise ProxyRefused(
            pb.ILLEGAL_INVISIBLE_TIME, f"the invisibleTime is too small. min is {low_ms} ms, not {asked_ms}"
        )
    if asked_ms > high_ms:
        raise ProxyRefused(
            pb.ILLEGAL_INVISIBLE_TIME, f"the invisibleTime is too large. max is {high_ms} ms, not {asked_ms}"
        )


@dataclass(frozen=True, slots=True)
class MessageChecks:
    """The limits of one message that is sent."""

    settings: ProxySettings

    def check(self, message: pb.Message, now: int) -> None:
        """Raises ProxyRefused for a message that no proxy takes; `now` is in ms."""
        self._check_body(message.body)
        system = message.system_properties
        if not system.message_id.strip():
            raise ProxyRefused(pb.ILLEGAL_MESSAGE_ID, "message id cannot be null")
        self._check_properties(message)
        if system.HasField("tag"):
            self._check_tag(system.tag)
        for key in system.keys:
            if not key.strip() or _has_controls(key):
                raise ProxyRefused(pb.ILLEGAL_MESSAGE_KEY, "a key is blank or holds control characters")
        if system.HasField("message_group"):
            self._check_group(system.message_group)
        if system.HasField("lite_topic"):
            check_lite_topic(system.lite_topic, self.settings.max_lite_topic_size)
        if system.HasField("delivery_timestamp"):
            ahead_ms = duration_ms(system.delivery_timestamp) - now
            if ahead_ms > self.settings.max_delay_time_mills > 0:
                raise ProxyRefused(
                    pb.ILLEGAL_DELIVERY_TIME,
                    f"the delay time {ahead_ms} ms is longer than maxDelayTimeMills, "
                    f"{self.settings.max_delay_time_mills} ms",
                )
        if system.HasField("orphaned_transaction_recovery_duration"):
            seconds = system.orphaned_transaction_recovery_duration.seconds
            if not 0 <= seconds <= self.settings.max_transaction_recovery_second:
                raise ProxyRefused(
                    pb.BAD_REQUEST,
                    f"the recovery time of an orphaned transaction is {seconds} s; it may be 0 to "
                    f"{self.settings.max_transaction_recovery_second} s",
                )

    def _check_body(self, body: bytes) -> None:
        if self.settings.enable_message_body_empty_check and not body:
            raise ProxyRefused(pb.MESSAGE_BODY_EMPTY, "message body cannot be empty")
        if len(body) > self.settings.max_message_size > 0:
            raise ProxyRefused(
                pb.MESSAGE_BODY_TOO_LARGE,
                f"message body has {len(body)} bytes, more than {self.settings.max_message_size}",
            )

    def _check_properties(self, message: pb.Message) -> None:
        user = message.user_properties
        if len(user) > self.settings.user_property_max_num > 0:
            raise ProxyRefused(
                pb.MESSAGE_PROPERTIES_TOO_LARGE,
                f"the message has {len(user)} properties, more than {self.settings.user_property_max_num}",
            )
        size_bytes = 0
        for name, value in user.items():
            if not name or name in RESERVED_PROPERTIES:
                raise ProxyRefused(pb.ILLEGAL_MESSAGE_PROPERTY_KEY, f"property is used by system: {name!r}")
            if _has_controls(name) or _has_controls(value):
                raise ProxyRefused(
                    pb.ILLEGAL_MESSAGE_PROPERTY_KEY, "the key or value of a property holds control characters"
                )
            size_bytes += len(name.encode()) + len(value.encode())
        system = message.system_properties
        size_bytes += len(system.tag.encode()) + sum(len(key.encode()) for key in system.keys)
        if size_bytes > self.settings.max_user_property_size > 0:
            raise ProxyRefused(
                pb.MESSAGE_PROPERTIES_TOO_LARGE,
                f"properties, tag and keys have {size_bytes} bytes, more than "
                f"{self.settings.max_user_property_size}",
            )

    def _check_tag(self, tag: str) -> None:
        if not tag.strip():
            raise ProxyRefused(pb.ILLEGAL_MESSAGE_TAG, "tag cannot be blank")
        if "|" in tag or _has_controls(tag):
            raise ProxyRefused(pb.ILLEGAL_MESSAGE_TAG, "tag cannot hold '|' or control characters")

    def _check_group(self, group: str) -> None:
        if not group.strip() or _has_controls(group):
            raise ProxyRefused(
                pb.ILLEGAL_MESSAGE_GROUP, "the message group is blank or holds control characters"
            )
        if len(group.encode()) >= self.settings.max_message_group_size > 0:
            raise ProxyRefused(
                pb.ILLEGAL_MESSAGE_GROUP,
                f"the message group has {len(group.encode())} bytes; it may have fewer than "
                f"{self.settings.max_message_group_size}",
            )


def is_retry_or_dead(topic: str) -> bool:
    """True for topics of retries and of dead letters, which take messages of every type."""
    return topic.startswith((RETRY_PREFIX, DLQ_PREFIX))


def _has_controls(text: str) -> bool:
    return any(unicodedata.category(character) == "Cc" for character in text)
