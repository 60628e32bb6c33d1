"""Messages of RocketMQ and of Kafka: the control properties on them, and one in the terms of the other.

Between the two kinds: KEYS is the record's key, each property is a header in UTF-8. A header that is no text
becomes a property `NAME.base64`, a key that is no text the property `kafka.key.base64`; a flag that is not 0
becomes the header `rocketmq.flag`. A header without a value or given twice, and a record without a value,
have no form in RocketMQ.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Mapping

from orbitmq.delay_service.errors import NoForm
from orbitmq.delay_service.rules.orders import CONTROL, GIVEN
from orbitmq.delay_service.store.records import Content
from orbitmq.protocol.names import KEYS, RESERVED_PROPERTIES, SHARDING_KEY, TAGS, TRANSIENT_PREFIX

CARRIED = frozenset({KEYS, TAGS, SHARDING_KEY})
"""Properties of RocketMQ's own that are the sender's; all others belong to one send."""
KEY_BASE64 = "kafka.key.base64"
FLAG_HEADER = "rocketmq.flag"
_OWN = CONTROL | GIVEN
_SHARED = frozenset({TAGS, SHARDING_KEY})
Header = tuple[str, bytes | None]


def split_properties(properties: Mapping[str, str], body: bytes, flag: int) -> tuple[dict[str, str], Content]:
    """The control properties of a message of RocketMQ, and the rest of it."""
    control, own = {}, {}
    for name, value in properties.items():
        if name in _OWN:
            control[name] = value
        elif (name not in RESERVED_PROPERTIES or name in CARRIED) and not name.startswith(TRANSIENT_PREFIX):
            own[name] = value
    return control, Content(body, own, flag)


def split_headers(
    headers: list[Header], value: bytes | None, key: bytes | None
) -> tuple[dict[str, str], Content, str]:
    """The control headers of a record of Kafka, the rest of it, and what is wrong with the headers."""
    control: dict[str, str] = {}
    own: list[Header] = []
    problem = ""
    for name, data in headers:
        if name not in _OWN:
            own.append((name, data))
        elif data is None:
            problem = problem or f"{name}: the header has no value"
        elif name in control:
            problem = problem or f"{name}: the header is given twice"
        else:
            try:
                control[name] = data.decode()
            except UnicodeDecodeError:
                problem = problem or f"{name}: the header is not UTF-8"
                control[name] = data.decode("utf-8", "replace")
    return control, Content(value, None, 0, own, key), problem


def as_rocketmq(content: Content) -> tuple[bytes, dict[str, str], int]:
    """Body, properties and flag. Raises NoForm."""
    if content.headers is None:
        return content.body or b"", content.properties or {}, content.flag
    if not content.body:
        raise NoForm("a record without a value has no form in RocketMQ, which needs a body")
    properties: dict[str, str] = {}
    flag = 0
    for name, data in content.headers:
        if data is None:
            raise NoForm(f"header {name!r} has no value, which has no form in RocketMQ")
        if name == FLAG_HEADER and data.lstrip(b"-").isdigit() and len(data) < 12:
            flag = int(data)
            continue
        if name in RESERVED_PROPERTIES and name not in _SHARED:
            raise NoForm(f"header {name!r} is the name of a property of RocketMQ's own")
        name, text = _property(name, data)
        if name in properties:
            raise NoForm(f"header {name!r} is given twice, which has no form in RocketMQ")
        properties[name] = text
    if content.key:
        key = _text(content.key)
        if key is None:
            properties[KEY_BASE64] = b64encode(content.key).decode()
        else:
            properties[KEYS] = key
    return content.body, properties, flag


def _property(name: str, data: bytes) -> tuple[str, str]:
    if not name or any(mark in name for mark in "\x00\x01\x02"):
        raise NoForm(f"header {name!r} has no form as the name of a property")
    text = _text(data)
    if text is None:
        return f"{name}.base64", b64encode(data).decode()
    if not text:
        raise NoForm(f"header {name!r} is empty, which has no form in RocketMQ")
    return name, text


def _text(data: bytes) -> str | None:
    """Bytes as a text that may be a property's value, None if they are none."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if "\x00" in text or "\x02" in text else text


def as_kafka(content: Content) -> tuple[bytes | None, bytes | None, list[Header], str]:
    """Value, key, headers and ordering key. Raises NoForm."""
    if content.headers is not None:
        return content.body, content.key, content.headers, ""
    properties = content.properties or {}
    headers: list[Header] = []
    key: bytes | None = None
    for name, text in properties.items():
        if name == KEYS:
            key = text.encode()
        elif name == KEY_BASE64:
            try:
                key = b64decode(text, validate=True)
            except (binascii.Error, ValueError):
                raise NoForm(f"property {KEY_BASE64} is no base64") from None
        else:
            headers.append((name, text.encode()))
    if content.flag:
        headers.append((FLAG_HEADER, str(content.flag).encode()))
    return content.body, key, headers, properties.get(SHARDING_KEY, "")


def check_form(content: Content, kafka: bool) -> None:
    """Raises NoForm for a message that its target's kind of cluster cannot have."""
    if kafka:
        as_kafka(content)
    else:
        as_rocketmq(content)


def with_properties(content: Content, more: Mapping[str, str]) -> Content:
    """A message with further properties or headers."""
    if content.headers is not None:
        headers = [*content.headers, *((name, text.encode()) for name, text in more.items())]
        return Content(content.body, None, 0, headers, content.key)
    return Content(content.body, {**(content.properties or {}), **more}, content.flag)
