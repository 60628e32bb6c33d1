"""Episodes by the bytes of an input."""

from __future__ import annotations

import pytest

from tests.fuzz.__main__ import FOUND
from tests.fuzz.episodes import EPISODES
from tests.fuzz.guided import GUIDED, PREFIX, Chance
from tests.fuzz.kept import kept


def test_the_same_bytes_make_the_same_choices_and_others_others() -> None:
    data = bytes(range(200))
    one, again, other = (Chance(given) for given in (data, data, b"\xff" + data))
    choices = [[chance.randrange(1000) for _ in range(300)] for chance in (one, again, other)]
    assert choices[0] == choices[1]
    assert choices[0][:50] != choices[2][:50]


def test_a_changed_byte_changes_its_own_choice_alone() -> None:
    data = bytearray(b"\x10" * 20)
    before = [Chance(bytes(data)).getrandbits(8) for _ in range(1)]
    data[15] = 0xEE
    chance = Chance(bytes(data))
    drawn = [chance.getrandbits(8) for _ in range(20)]
    assert drawn[:15] == before * 15
    assert drawn[15] == 0xEE
    assert drawn[16:] == [0x10] * 4


def test_behind_the_input_choices_go_on() -> None:
    chance = Chance(b"")
    assert len({chance.random() for _ in range(50)}) > 10


@pytest.mark.parametrize("name", EPISODES)
def test_an_episode_runs_by_its_seed_by_what_is_kept_and_by_what_was_found_once(name: str) -> None:
    target = GUIDED[PREFIX + name]
    target.run(next(iter(target.seeds())))
    for data in kept(PREFIX + name):
        target.run(data)
    for path in sorted((FOUND / (PREFIX + name)).glob("*")):
        target.run(path.read_bytes())
