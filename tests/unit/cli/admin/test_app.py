import re
from pathlib import Path

from orbitmq.cli.admin import app
from orbitmq.cli.admin.command import ALONE, COMMANDS
from orbitmq.cli.app import PLACES

PAGE = (Path(__file__).parents[4] / "docs" / "operate" / "commands.md").read_text()


def test_the_page_of_commands_names_every_command_and_no_other() -> None:
    administration = PAGE.split("## Administration")[1]
    named = re.findall(r"^\| `(?!orbitmq)(\w+) ([a-z][\w-]*)[^`]*` \|", administration, re.MULTILINE)
    alone = re.findall(r"^\| `(?!orbitmq)(\w+) [A-Z]+` \|", administration, re.MULTILINE)
    assert app.admin.name == "admin"
    assert set(alone) == set(ALONE)
    assert sorted(named) == sorted((subject, name) for subject, names in COMMANDS.items() for name in names)
    assert set(re.findall(r"^\| `orbitmq (\w+)", PAGE, re.MULTILINE)) == set(PLACES)
