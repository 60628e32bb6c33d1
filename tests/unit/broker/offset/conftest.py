"""A broker with a topic and a group."""

import pytest

from tests.kit.world import NOW, World


@pytest.fixture
def world() -> World:
    world = World()
    world.topics.ensure("T", 2, NOW)
    world.groups.find("G", NOW)
    world.dirty_tables.drain_all()
    return world
