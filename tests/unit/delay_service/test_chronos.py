import json
import uuid

import pytest
import rocksdict

from orbitmq.delay_service.chronos import Imported, NoChronos, import_chronos, read_chronos, read_seek

SEEK = 1_700_000_100


def new_id(second, kind=2, expire=1_900_000_000, times=0, timed=0, interval=0, uid=None):
    return f"{second}-{kind}-{expire}-{times}-{timed}-{interval}-0-{uid or uuid.uuid4()}"


def value(topic="t", body="b", **more):
    return json.dumps({"a": topic, "b": body, "c": 1, **more}).encode()


@pytest.fixture
def chronos(tmp_path):
    folder = tmp_path / "chronos"
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_compression_type(rocksdict.DBCompressionType.zstd())

    def make(entries):
        db = rocksdict.Rdict(str(folder), options)
        for key, data in entries.items():
            db[key.encode()] = data
        db.close()
        return folder

    return make


def test_what_is_not_delivered_is_taken_over(chronos, world):
    old, soon, late = new_id(SEEK), new_id(SEEK + 1), new_id(SEEK + 50, 3, times=3, interval=5)
    folder = chronos({
        old: value(body="old"),
        soon: value(body="soon", d="tag", e={"p": "1"}),
        late: value(body="loop"),
    })  # fmt: skip
    counts = Imported()
    import_chronos(world.intake, "main", read_chronos(folder, SEEK, counts), counts, world.now)
    assert (counts.messages, counts.delivered, counts.refused) == (2, 1, 0)
    world.now = (SEEK + 2) * 1000
    world.run(70_000, 1000)
    assert world.bodies("main/t") == [b"soon", b"loop", b"loop", b"loop"]
    assert world.sent[0][2].pending.content.properties == {"p": "1", "TAGS": "tag"}
    assert world.sent[0][2].pending.ddmq == soon


def test_tombstones_of_both_forms_count(chronos):
    first, second, kept = new_id(SEEK + 9), new_id(SEEK + 9), new_id(SEEK + 9)
    folder = chronos({
        first: value(), second: value(), kept: value(),
        new_id(SEEK + 9, 0): json.dumps({"topic": "t", "uniqDelayMsgId": first}).encode(),
        new_id(SEEK + 9, 0, interval=1): second.encode(),
    })  # fmt: skip
    counts = Imported()
    assert [id for id, _ in read_chronos(folder, SEEK, counts)] == [kept]
    assert counts.cancelled == 2


def test_segments_are_joined(chronos):
    id = new_id(SEEK + 9)
    data = value(body="x" * 2500)
    parts = [data[n : n + 1000] for n in range(0, len(data), 1000)]
    folder = chronos({f"{id}-{len(parts)}-{10_000 + n}": part for n, part in enumerate(parts)})
    counts = Imported()
    assert list(read_chronos(folder, SEEK, counts)) == [(id, data)]


def test_segments_that_lack_one_are_refused(chronos):
    id = new_id(SEEK + 9)
    folder = chronos({f"{id}-3-10000": b"{", f"{id}-3-10002": b"}", new_id(SEEK + 10): value()})
    counts = Imported()
    assert len(list(read_chronos(folder, SEEK, counts))) == 1
    assert counts.refused == 1


def test_values_that_are_none_are_told(chronos, world):
    folder = chronos({new_id(SEEK + 9): b"nothing", new_id(SEEK + 10, 5): value()})
    counts = Imported()
    import_chronos(world.intake, "main", read_chronos(folder, SEEK, counts), counts, world.now)
    assert (counts.messages, counts.refused) == (0, 2)
    assert len(counts.reasons) == 2


def test_folders_and_files_that_are_none(tmp_path):
    with pytest.raises(NoChronos):
        list(read_chronos(tmp_path, 0, Imported()))
    (tmp_path / "seek").write_text("soon")
    with pytest.raises(NoChronos):
        read_seek(tmp_path / "seek")
    (tmp_path / "seek").write_text(" 1700000100\n")
    assert read_seek(tmp_path / "seek") == SEEK
