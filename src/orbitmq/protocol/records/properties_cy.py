"""Looks into property strings without taking them apart: tags code, index keys, one property.

Hot: the store looks at every message here. A property string is `name 0x01 value 0x02 ...`; an entry with an
empty name or an empty value does not count, the last 0x02 may be missing, a value may hold 0x01, and of
several entries of one name the last counts.
"""

from __future__ import annotations

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

from orbitmq.protocol.records.hashing import java_hash

if cython.compiled:
    from cython.cimports.orbitmq.protocol.buffers.bounded import (  # type: ignore[import-not-found]
        Span,
        byte_of,
        bytes_of,
        find_end,
        is_ascii,
        is_there,
        no_span,
        part_of,
        replaced_text_of,
        rest_of,
        span_of,
        span_of_literal,
        starts_with_span,
    )
    from cython.cimports.orbitmq.protocol.buffers.text_hash import (  # type: ignore[import-not-found]
        absolute,
        hash_on,
        tag_hash,
    )
    from cython.cimports.orbitmq.protocol.records.property_entries import (  # type: ignore[import-not-found]
        next_property,
    )


def decode_properties(properties: bytes | str) -> dict[str, str]:
    """The properties by name. Bytes that are no UTF-8 become U+FFFD, as in Java."""
    result: dict[str, str] = {}
    if cython.compiled and isinstance(properties, bytes):
        whole: Span = span_of(properties)
        name_part: Span = no_span()
        value_part: Span = no_span()
        place: cython.Py_ssize_t = 0
        while next_property(
            whole, cython.address(place), cython.address(name_part), cython.address(value_part)
        ):
            result[replaced_text_of(name_part)] = replaced_text_of(value_part)
        return result
    text = properties if isinstance(properties, str) else properties.decode("utf-8", "replace")
    for entry in text.split("\x02"):
        name, _, value = entry.partition("\x01")
        if name and value:
            result[name] = value
    return result


def find_property(properties: bytes, name: bytes) -> bytes | None:
    """The value of one property, None without it."""
    if cython.compiled:
        value: Span = _find(span_of(properties), span_of(name))
        return bytes_of(value) if is_there(value) else None
    # From the back, because the last entry counts; past entries that are empty.
    mark = b"\x02%b\x01" % name
    limit = len(properties)
    while name:
        at = properties.rfind(mark, 0, limit)
        if at >= 0:
            start = at + len(mark)
        elif properties.startswith(mark[1:]):
            start = len(mark) - 1
        else:
            return None
        stop = properties.find(b"\x02", start)
        if stop < 0:
            stop = len(properties)
        if stop > start:
            return properties[start:stop]
        if at < 0:
            return None
        # The next match may share the 0x02 that began this one.
        limit = at + 1
    return None


@cython.cfunc
@cython.exceptval(check=False)
def _find(properties: Span, name: Span) -> Span:
    """The value of a property; none without it. Compiled only."""
    found: Span = no_span()
    entry: Span
    at: cython.Py_ssize_t = 0
    stop: cython.Py_ssize_t
    if name.size == 0:
        return found
    while properties.size - at > name.size + 1:
        stop = find_end(properties, 2, at)
        entry = part_of(properties, at, stop - at)
        if entry.size > name.size + 1 and byte_of(entry, name.size) == 1 and starts_with_span(entry, name):
            found = rest_of(entry, name.size + 1)
        at = stop + 1
    return found


def tags_code(properties: bytes) -> int:
    """The tags code of a consume-queue unit: Java's hash of the tag, 0 without a tag."""
    if cython.compiled:
        value: Span = _find(span_of(properties), span_of_literal(b"TAGS"))
        if is_ascii(value):
            return tag_hash(value)
        return java_hash(replaced_text_of(value))
    tags = find_property(properties, b"TAGS")
    return 0 if tags is None else java_hash(tags.decode("utf-8", "replace"))


def index_keys(topic: str, properties: bytes) -> list[str]:
    """The texts under which the index knows a message, in the order of its entries.

    They are `topic#key` for the unique id and for each of the keys, then `topic#T#tag`.
    """
    keys: list[str] = []
    unique = find_property(properties, b"UNIQ_KEY")
    if unique is not None:
        keys.append(f"{topic}#{unique.decode('utf-8', 'replace')}")
    words = find_property(properties, b"KEYS")
    if words is not None:
        keys += [f"{topic}#{word}" for word in words.decode("utf-8", "replace").split(" ") if word]
    tags = find_property(properties, b"TAGS")
    if tags is not None:
        keys.append(f"{topic}#T#{tags.decode('utf-8', 'replace')}")
    return keys


def index_hashes(topic: str, properties: bytes) -> list[int]:
    """The hashes of `index_keys`, as index entries hold them."""
    hashes: list[int] = []
    if cython.compiled and topic.isascii() and properties.isascii():
        name: bytes = topic.encode("ascii")
        base: cython.uint = hash_on(0, span_of(name)) * 31 + 35
        whole: Span = span_of(properties)
        word: cython.Py_ssize_t = 0
        stop: cython.Py_ssize_t
        value: Span = _find(whole, span_of_literal(b"UNIQ_KEY"))
        if is_there(value):
            hashes.append(absolute(hash_on(base, value)))
        value = _find(whole, span_of_literal(b"KEYS"))
        while word < value.size:
            stop = find_end(value, 32, word)
            if stop > word:
                hashes.append(absolute(hash_on(base, part_of(value, word, stop - word))))
            word = stop + 1
        value = _find(whole, span_of_literal(b"TAGS"))
        if is_there(value):
            hashes.append(absolute(hash_on((base * 31 + 84) * 31 + 35, value)))
        return hashes
    for key in index_keys(topic, properties):
        # Not through java_hash's memory: keys come once, and would push the tags out.
        code = java_hash.__wrapped__(key)
        hashes.append(0 if code == -2147483648 else abs(code))
    return hashes
