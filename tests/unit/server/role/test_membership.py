"""A broker's talk with controllers that answer otherwise than they should."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused, MalformedReply
from orbitmq.protocol.requests.controller import (
    ControllerApplyBrokerId,
    ControllerGetNextBrokerId,
    NextBrokerIdReply,
)
from orbitmq.protocol.requests.ha import BrokerHeartbeat
from orbitmq.protocol.schema.declare import Void
from orbitmq.server.role import membership
from orbitmq.server.role.controller_client import ControllerClient
from orbitmq.server.role.files import IdentityFile
from orbitmq.server.role.membership import Membership
from tests.kit.role_story import RoleStory


class Controllers:
    """A group that takes no member, and a first heartbeat that is answered by nonsense."""

    def __init__(self) -> None:
        self.beats = 0

    async def call(self, request: object) -> Any:
        if isinstance(request, ControllerGetNextBrokerId):
            return NextBrokerIdReply("C", "broker-a", 65)
        if isinstance(request, ControllerApplyBrokerId):
            raise BrokerRefused(ResponseCode.CONTROLLER_BROKER_ID_INVALID, "broker-a has 64 members")
        return Void()

    async def beat(self, heartbeat: BrokerHeartbeat) -> Void:
        self.beats += 1
        if self.beats == 1:
            raise MalformedReply("it has no code")
        return Void()


async def said(story: RoleStory, controllers: Controllers, path: Path, log: pytest.LogCaptureFixture) -> str:
    """The first line of the log of a broker whose heartbeats go on behind it."""
    identity, settings = story.machine._identity, story.settings
    settings.broker_heartbeat_interval = 1
    member = Membership(
        story.machine,
        cast("ControllerClient", controllers),
        IdentityFile(path / "who", "C", "broker-a"),
        identity,
        settings,
        lambda: story.now,
        lambda: None,
    )
    running = asyncio.create_task(member.run())
    while not log.messages and not running.done():  # noqa: ASYNC110 (the log tells nobody)
        await asyncio.sleep(0.01)
    assert not running.done(), running
    running.cancel()
    return log.messages[0]


async def test_a_group_that_takes_no_member_is_said_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(membership, "STEP_SECONDS", 0)
    story = RoleStory()
    story.machine.broker_id, story.machine.is_registered = 0, False
    async with asyncio.timeout(20):
        assert "broker-a has 64 members" in await said(story, Controllers(), tmp_path, caplog)


async def test_an_answer_that_cannot_be_read_ends_no_heartbeats(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with asyncio.timeout(20):
        assert "it has no code" in await said(RoleStory(), Controllers(), tmp_path, caplog)
