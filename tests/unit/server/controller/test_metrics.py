"""Metrics of a controller."""

from prometheus_client.parser import text_string_to_metric_families as parse_text

from orbitmq.server.controller.metrics import FOLLOWER, LEADER, ControllerMetrics
from tests.kit.controller_story import ControllerStory, StoryBroker


def _samples(story: ControllerStory) -> dict[str, float]:
    text = ControllerMetrics(story.controller).text(open_metrics=False).decode()
    return {
        "/".join([sample.name, *filter(None, [sample.labels.get("election_result")])]): sample.value
        for family in parse_text(text)
        for sample in family.samples
    }


def test_a_group_that_loses_its_master_shows() -> None:
    story = ControllerStory()
    first, second = StoryBroker(story), StoryBroker(story)
    first.elect()
    first.report_in_sync(1, 2)
    told = _samples(story)
    assert (told["role"], told["active_broker_num"]) == (LEADER, 2)
    assert (told["orbitmq_broker_group_has_master"], told["orbitmq_broker_group_in_sync"]) == (1, 2)
    assert told["orbitmq_broker_group_master_id"] == 1
    first.die()
    second.die()
    told = _samples(story)
    assert (told["orbitmq_broker_group_has_master"], told["active_broker_num"]) == (0, 0)
    assert told["orbitmq_broker_group_master_epoch"] == 2
    assert told["orbitmq_broker_group_master_id"] == 0
    assert told["election_total/new_master_elected"] == 2


def test_a_controller_that_does_not_lead_says_so() -> None:
    story = ControllerStory()
    story.controller.step_down()
    assert _samples(story)["role"] == FOLLOWER


def test_the_cost_of_an_election_shows() -> None:
    story = ControllerStory(enable_elect_unclean_master=True)
    first, second = StoryBroker(story), StoryBroker(story)
    first.elect()
    first.max_offset, second.max_offset = 5000, 4200
    first.beat()
    story.now += 1_200
    second.beat()
    first.die()
    told = _samples(story)
    assert told["orbitmq_broker_group_master_id"] == 2
    assert told["orbitmq_broker_group_last_outage_ms"] == 1_200
    assert told["orbitmq_broker_group_unclean_lost_bytes"] == 800
