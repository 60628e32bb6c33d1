"""Every parser that meets the network or a file, on what a fuzzer makes of good input.

Three times: what was found once; changes by chance, in this process, so that compiled modules are tried as
they are; and, at night, a few seconds of fuzzing by coverage, all targets at once, if atheris is installed.
`python -m tests.fuzz` runs it for hours, ORBITMQ_FUZZ_SECONDS makes this form longer.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from tests.fuzz.__main__ import FOUND, fuzz, minimise
from tests.fuzz.kept import MAX_BYTES, MAX_INPUTS, keep, kept
from tests.fuzz.targets import TARGETS

SECONDS = float(os.environ.get("ORBITMQ_FUZZ_SECONDS", "6"))
SEED = int(os.environ.get("ORBITMQ_FUZZ_SEED", "1"))
CHANGED = 100
"""Number of changed inputs that each target is given."""
INTERESTING = (
    b"\x00",
    b"\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff",
    b'"',
    b"{",
    b"[",
    b"\\",
    b"0",
)


def changed(seeds: list[bytes], chance: random.Random) -> bytes:
    """One of the seeds with some damage."""
    data = bytearray(chance.choice(seeds))
    for _ in range(chance.randint(1, 5)):
        at = chance.randint(0, len(data))
        what = chance.randrange(5)
        if what == 0:
            data[at : at + 1] = bytes([chance.randrange(256)])
        elif what == 1:
            data[at : at + chance.randint(0, 20)] = b""
        elif what == 2:
            data[at:at] = chance.choice(INTERESTING) * chance.choice((1, 1, 30))
        elif what == 3:
            word = chance.choice(INTERESTING)
            data[at : at + len(word)] = word
        else:
            other = chance.choice(seeds)
            data[at:] = other[chance.randint(0, len(other)) :]
    return bytes(data)


@pytest.mark.parametrize("name", TARGETS)
def test_well_formed_input_what_is_kept_and_what_was_found_once(name: str) -> None:
    target = TARGETS[name]
    target.run(b"")
    for data in (*target.seeds(), *kept(name)):
        target.run(data)
    for path in sorted((FOUND / name).glob("*")):
        target.run(path.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_input_that_was_changed(name: str) -> None:
    target = TARGETS[name]
    chance = random.Random(f"{SEED} {name}")
    seeds = list(target.seeds())
    for number in range(CHANGED):
        data = changed(seeds, chance)
        began = time.process_time()
        try:
            target.run(data)
        except Exception as error:
            pytest.fail(f"ORBITMQ_FUZZ_SEED={SEED}, input {number}: {error!r} for {data.hex()}")
        took = time.process_time() - began
        assert took < 10, f"ORBITMQ_FUZZ_SEED={SEED}, input {number}: {took:.0f} s of work"


@pytest.mark.nightly
@pytest.mark.needs("atheris")
@pytest.mark.timeout(SECONDS * 3 + 240)
def test_guided_by_coverage(tmp_path: Path) -> None:
    done = fuzz("all", SECONDS, tmp_path / "corpus", tmp_path / "found", seed=SEED, capture=True)
    assert done.returncode == 0, done.stderr[-6000:]


@pytest.mark.nightly
@pytest.mark.needs("atheris")
def test_a_corpus_is_made_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.kept.FOLDER", tmp_path / "kept")
    corpus = tmp_path / "corpus" / "batch"
    corpus.mkdir(parents=True)
    for number in range(50):
        (corpus / str(number)).write_bytes(bytes(number))
    assert 0 < minimise("batch", tmp_path / "corpus", tmp_path / "found") < 20
    assert len(kept("batch")) < 20


def test_no_more_is_kept_than_is_small_and_the_same_makes_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.fuzz.kept.FOLDER", tmp_path)
    assert keep("a", (b"%d" % number for number in range(1000))) == MAX_INPUTS
    before = (tmp_path / "a.zip").read_bytes()
    keep("a", (b"%d" % number for number in reversed(range(1000))))
    assert (tmp_path / "a.zip").read_bytes() == before
    assert keep("a", [bytes(MAX_BYTES // 2), bytes(MAX_BYTES // 2), bytes(MAX_BYTES), b"x"]) == 2
    assert kept("a") == [b"x", bytes(MAX_BYTES // 2)]
    assert kept("b") == []
