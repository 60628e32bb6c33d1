"""Stories of a broker's role, in files that operators can read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.acting_story import ActingStory
from tests.kit.role_story import RoleStory

HERE = Path(__file__).parent


def stories(folder: str) -> list[Path]:
    found = sorted((HERE / folder).glob("*.txt"))
    assert found, folder
    return found


@pytest.mark.parametrize("path", stories("role"), ids=lambda path: path.stem)
def test_a_broker_takes_the_role_that_its_controller_gives(path: Path) -> None:
    RoleStory().play(path.read_text())


@pytest.mark.parametrize("path", stories("acting"), ids=lambda path: path.stem)
def test_a_slave_acts_for_its_master(path: Path) -> None:
    ActingStory().play(path.read_text())


def test_without_remote_escape_a_slave_acts_and_does_no_work() -> None:
    lines = "its master is gone\nthe name servers name 1\n-> act\n-> rest"
    ActingStory(enable_remote_escape=False).play(lines)


@pytest.mark.parametrize("story", [RoleStory(), ActingStory()])
def test_a_story_that_does_not_hold_names_its_line(story: RoleStory | ActingStory) -> None:
    with pytest.raises(AssertionError, match=r"line 2.*the step is: (nothing|rest)"):
        story.play("# nothing has happened\n-> begin the work")
