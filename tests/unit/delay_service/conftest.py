import pytest

from tests.kit.delay_world import DelayWorld


@pytest.fixture
def world(tmp_path):
    world = DelayWorld(tmp_path / "delay")
    yield world
    world.store.close()
