"""Options that the consensus store holds for whoever leads."""

from __future__ import annotations

import pytest

from orbitmq.controller.handlers.admin import UPDATES_KEY
from tests.kit.controller_story import ControllerStory


def test_a_stored_option_that_this_release_does_not_take_keeps_no_controller_from_leading(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """After the return to an earlier release no controller led, for good: no group had a master again."""
    story = ControllerStory()
    story.stored[UPDATES_KEY] = "optionOfTomorrow=1\nlistenPort=1\nenableElectUncleanMaster=true\n"
    story.takes_over()
    assert story.controller.leadership.leads
    assert story.settings.enable_elect_unclean_master
    assert "optionOfTomorrow" in caplog.text
    assert "listenPort" in caplog.text
