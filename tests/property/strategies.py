"""Messages of all kinds."""

from __future__ import annotations

from hypothesis import strategies as st

from orbitmq.protocol.records.encoding_cy import encode_record, record_size

INT16 = st.integers(-(1 << 15), (1 << 15) - 1)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
HOSTS = st.one_of(st.binary(min_size=8, max_size=8), st.binary(min_size=20, max_size=20))
TOPICS = st.one_of(
    st.text("abcXYZ019_-%|", min_size=1, max_size=127),
    st.text("%RETYg", min_size=128, max_size=255),
    st.text(min_size=1, max_size=40),
)

_PLAIN = st.characters(codec="utf-8", exclude_characters="\x00\x01\x02")
NAMES = st.text(_PLAIN, min_size=1, max_size=12)
VALUES = st.text(_PLAIN, min_size=1, max_size=40)
PROPERTY_MAPS = st.dictionaries(st.one_of(st.sampled_from(["KEYS", "TAGS", "UNIQ_KEY"]), NAMES), VALUES)
PROPERTY_BYTES = st.one_of(
    PROPERTY_MAPS.map(lambda found: "".join(f"{n}\x01{v}\x02" for n, v in found.items()).encode()),
    st.lists(st.sampled_from([b"\x01", b"\x02", b"TAGS", b"KEYS", b"a", b" ", b"\xc3", "é".encode()])).map(
        b"".join
    ),
    st.binary(max_size=60).map(lambda raw: raw.replace(b"\x00", b"")),
)

RECORD_FIELDS = st.tuples(
    INT32,  # queue id
    INT32,  # flag
    INT64,  # queue offset
    INT64,  # physical offset
    INT32.map(lambda flag: flag & ~0x30),  # sysFlag
    INT64,  # born time
    HOSTS,
    INT64,  # store time
    HOSTS,
    INT32,  # reconsume times
    INT64,  # prepared transaction offset
    st.binary(max_size=200),
    TOPICS.map(str.encode),
    PROPERTY_BYTES,
)


def encoded(fields: tuple) -> bytes:  # type: ignore[type-arg]
    """The record with these fields."""
    *_, body, topic, properties = fields
    out = bytearray(record_size(len(body), len(topic), len(properties), len(fields[6]), len(fields[8])))
    assert encode_record(out, 0, *fields) == len(out)
    return bytes(out)


RECORDS = RECORD_FIELDS.map(encoded)
