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

from orbitmq.protocol.hashing import java_hash

if cython.compiled:
    from cython.cimports.cpython.bytes import (  # type: ignore[import-not-found]
        PyBytes_AS_STRING,
        PyBytes_FromStringAndSize,
        PyBytes_GET_SIZE,
    )
    from cython.cimports.cpython.unicode import PyUnicode_DecodeUTF8  # type: ignore[import-not-found]
    from cython.cimports.libc.string import memchr, memcmp  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.text_hash import absolute, hash_on  # type: ignore[import-not-found]


def decode_properties(properties: bytes | str) -> dict[str, str]:
    """The properties by name. Bytes that are no UTF-8 become U+FFFD, as in Java."""
    result: dict[str, str] = {}
    if cython.compiled and isinstance(properties, bytes):
        start: cython.p_char = PyBytes_AS_STRING(properties)
        end: cython.p_char = start + PyBytes_GET_SIZE(properties)
        stop: cython.p_char
        middle: cython.p_char
        while start < end:
            stop = cython.cast(cython.p_char, memchr(start, 2, end - start))
            if stop == cython.NULL:
                stop = end
            middle = cython.cast(cython.p_char, memchr(start, 1, stop - start))
            if middle != cython.NULL and middle > start and middle + 1 < stop:
                result[PyUnicode_DecodeUTF8(start, middle - start, b"replace")] = PyUnicode_DecodeUTF8(
                    middle + 1, stop - middle - 1, b"replace"
                )
            start = stop + 1
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
        size: cython.Py_ssize_t = 0
        value: cython.p_char = _find(
            PyBytes_AS_STRING(properties),
            PyBytes_GET_SIZE(properties),
            PyBytes_AS_STRING(name),
            PyBytes_GET_SIZE(name),
            cython.address(size),
        )
        return None if value == cython.NULL else PyBytes_FromStringAndSize(value, size)
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
def _find(
    start: cython.p_char,
    length: cython.Py_ssize_t,
    name: cython.p_char,
    name_length: cython.Py_ssize_t,
    size: cython.pointer[cython.Py_ssize_t],
) -> cython.p_char:
    """Where the value of a property begins, its length in `size`; NULL without it. Compiled only."""
    end: cython.p_char = start + length
    found: cython.p_char = cython.NULL
    stop: cython.p_char
    if name_length == 0:
        return found
    while end - start > name_length + 1:
        stop = cython.cast(cython.p_char, memchr(start, 2, end - start))
        if stop == cython.NULL:
            stop = end
        if (
            stop - start > name_length + 1
            and start[name_length] == 1
            and start[0] == name[0]
            and memcmp(start, name, name_length) == 0
        ):
            found = start + name_length + 1
            size[0] = stop - found
        start = stop + 1
    return found


def tags_code(properties: bytes) -> int:
    """What a consume-queue unit holds of a message's tag: Java's hash of it, 0 without a tag."""
    if cython.compiled:
        size: cython.Py_ssize_t = 0
        value: cython.p_char = _find(
            PyBytes_AS_STRING(properties), PyBytes_GET_SIZE(properties), b"TAGS", 4, cython.address(size)
        )
        if value == cython.NULL:
            return 0
        if _is_ascii(value, size):
            return cython.cast(cython.int, hash_on(0, cython.cast(cython.p_uchar, value), size))
        return java_hash(PyUnicode_DecodeUTF8(value, size, b"replace"))
    tags = find_property(properties, b"TAGS")
    return 0 if tags is None else java_hash(tags.decode("utf-8", "replace"))


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_ascii(text: cython.p_char, size: cython.Py_ssize_t) -> cython.bint:
    i: cython.Py_ssize_t
    bits: cython.uchar = 0
    for i in range(size):
        bits |= cython.cast(cython.uchar, text[i])
    return bits < 128


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
        base: cython.uint = hash_on(
            0, cython.cast(cython.p_uchar, PyBytes_AS_STRING(name)), PyBytes_GET_SIZE(name)
        )
        base = base * 31 + 35
        start: cython.p_char = PyBytes_AS_STRING(properties)
        length: cython.Py_ssize_t = PyBytes_GET_SIZE(properties)
        size: cython.Py_ssize_t = 0
        end: cython.p_char
        word: cython.p_char
        value: cython.p_char = _find(start, length, b"UNIQ_KEY", 8, cython.address(size))
        if value != cython.NULL:
            hashes.append(absolute(hash_on(base, cython.cast(cython.p_uchar, value), size)))
        value = _find(start, length, b"KEYS", 4, cython.address(size))
        if value != cython.NULL:
            end = value + size
            while value < end:
                word = value
                while value < end and value[0] != 32:
                    value += 1
                if value > word:
                    hashes.append(absolute(hash_on(base, cython.cast(cython.p_uchar, word), value - word)))
                value += 1
        value = _find(start, length, b"TAGS", 4, cython.address(size))
        if value != cython.NULL:
            hashes.append(
                absolute(hash_on((base * 31 + 84) * 31 + 35, cython.cast(cython.p_uchar, value), size))
            )
        return hashes
    for key in index_keys(topic, properties):
        # Not through java_hash's memory: keys come once, and would push the tags out.
        code = java_hash.__wrapped__(key)
        hashes.append(0 if code == -2147483648 else abs(code))
    return hashes
