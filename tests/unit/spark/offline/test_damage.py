"""Whatever happens to the bytes of a log: each message is read, or its place is told; none comes twice."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.kit.store_files import StoreFiles

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from orbitmq.protocol.records.message import BadRecord
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.spark.offline.options import OfflineOptions
from orbitmq.spark.offline.planning import plan
from orbitmq.spark.offline.reader import read_work

COLUMNS = ("body", "physicalOffset", "badRecord")
COUNT = 60

DAMAGE = st.lists(
    st.tuples(
        st.integers(0, COUNT * 150),
        st.one_of(
            st.binary(min_size=1, max_size=12),
            st.integers(1, 400).map(bytes),  # zeros, as a power cut leaves them
            st.integers(1, 3).map(lambda count: b"\xda\xa3\x20\xa7" * count),
        ),
    ),
    max_size=4,
)


def is_half(log: bytes, position: int) -> bool:
    """True if damage has made a transaction's half message of a whole one: nothing covers that flag."""
    try:
        return bool(decode_record(log, position).sys_flag & 4)
    except BadRecord:
        return False


@settings(max_examples=40, deadline=None)
@example([(1390, b"\x00")], 600, True)
@given(DAMAGE, st.sampled_from([0, 600, 3000]), st.booleans())
def test_every_byte_is_accounted_for(damage: list[tuple[int, bytes]], split: int, with_queues: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = StoreFiles(Path(folder), segment_bytes=4096)
        puts = [
            store.put(b"%03d" % number * (1 + number % 20), queue_id=number % 2, unit=with_queues)
            for number in range(COUNT)
        ]
        places = [(at % store.end, data) for at, data in damage]
        for at, data in places:
            room = store.segment_bytes - at % store.segment_bytes
            store.write(at, data[:room])
        log = b"".join(path.read_bytes() for path in sorted((store.root / "commitlog").iterdir()))
        options = OfflineOptions.parse({"path": folder, "splitBytes": str(split), "maxBatchBytes": "2000"})
        rows = [
            row
            for work in plan(options)
            for batch in read_work(work, options, COLUMNS)
            for row in batch.to_pylist()
        ]
    sizes = {put.physical_offset: put.size for put in puts}
    read = {row["physicalOffset"] for row in rows if row["badRecord"] is None}
    bad = [row["badRecord"] for row in rows if row["badRecord"] is not None]
    assert len(read) == sum(row["badRecord"] is None for row in rows), "a record was read twice"
    touched = [(at, at + len(data)) for at, data in places]
    for put in puts:
        begin, end = put.physical_offset, put.physical_offset + put.size
        was_hit = any(low < end and begin < high for low, high in touched)
        told = any(
            one["physicalOffset"] < end and begin < one["physicalOffset"] + one["sizeBytes"] for one in bad
        )
        if not was_hit:
            assert put.physical_offset in read, put
        elif any(log[begin:]) and not is_half(log, begin):
            # Nothing but zeros to the end of the log looks like a log that ends there.
            assert put.physical_offset in read or told, put
    covered = [(at, at + sizes[at]) for at in read]
    covered += [(one["physicalOffset"], one["physicalOffset"] + one["sizeBytes"]) for one in bad]
    covered.sort()
    assert all(high <= low for (_, high), (low, _) in pairwise(covered)), covered
