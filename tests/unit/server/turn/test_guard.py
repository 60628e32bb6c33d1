"""Requests that the guard lets through, its answers, and its log."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from orbitmq.handling.call import OffLoop, Outcome, Peer, Wait
from orbitmq.options import RefusedValue
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.remoting.command import FLAG_ONEWAY, Command
from orbitmq.protocol.requests import every as _every  # noqa: F401 (it fills REQUESTS)
from orbitmq.server.turn.guard import LOG_LINES_PER_SECOND, Checking, Guard, require_ha_guard, warn_of_gaps
from tests.kit.waiting import met


class Line:
    """A connection that keeps what it is sent."""

    def __init__(self) -> None:
        self.peer = Peer(1, bytes(8), "10.0.0.9:4000")
        self.sent: list[Command] = []

    def send(self, command: Command) -> None:
        self.sent.append(command)


class Gate:
    """Refuses what has a remark; with a body it takes a while to see."""

    def __init__(self) -> None:
        self.changes = 0

    def refusal(self, command: Command, peer: Peer, now: int) -> str | Checking | None:
        return command.remark if command.body is None else self._seen(command)

    def _seen(self, command: Command) -> Checking:
        yield
        return command.remark

    def admitted_bytes(self, data: bytes, peer: Peer, now: int) -> int:
        return len(data) // now  # no more of it than that


class World:
    def __init__(self) -> None:
        self.now = 1_000
        self.passed: list[list[Command]] = []
        self.line: Any = Line()
        self.gate = Gate()
        self.held: list[tuple[Wait, Callable[[Outcome], None]]] = []
        self.guard = Guard(
            self.gate,
            lambda line, commands: self.passed.append(commands),
            lambda: self.now,
            lambda connection_id, wait, ended: self.held.append((wait, ended)),
        )

    def ask(self, *commands: Command) -> None:
        self.guard.on_requests(self.line, list(commands))

    def check(self) -> None:
        """Does the work of the request that is held for the longest time."""
        wait, ended = self.held.pop(0)
        ended(met(wait))


def request(opaque: int, remark: str | None = None, flag: int = 0, body: bytes | None = None) -> Command:
    return Command(310, opaque, flag, remark=remark, body=body)


def test_what_may_pass_is_handed_on_together_and_the_rest_is_answered() -> None:
    world = World()
    world.ask(request(1), request(2, "no"), request(3), request(4, "never"))
    assert [[command.opaque for command in step] for step in world.passed] == [[1, 3]]
    assert [(one.code, one.opaque, one.remark, one.flag) for one in world.line.sent] == [
        (16, 2, "no", 1),
        (16, 4, "never", 1),
    ]
    assert world.guard.refused == 2


def test_nothing_is_handed_on_where_nothing_passes_and_nobody_is_answered_who_does_not_wait() -> None:
    world = World()
    world.ask(request(1, "no", FLAG_ONEWAY))
    assert world.passed == []
    assert world.line.sent == []
    assert world.guard.refused == 1


def test_refusals_are_logged_so_many_a_second(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    with caplog.at_level(logging.WARNING):
        for number in range(LOG_LINES_PER_SECOND + 7):
            world.ask(request(number, "check signature failed."))
        assert len(caplog.records) == LOG_LINES_PER_SECOND
        assert caplog.messages[0] == ("refused SEND_MESSAGE_V2 of 10.0.0.9:4000: check signature failed.")
        world.now += 1_000
        world.ask(request(0, "no"))
    assert caplog.messages[LOG_LINES_PER_SECOND:] == [
        "7 more requests were refused",
        "refused SEND_MESSAGE_V2 of 10.0.0.9:4000: no",
    ]


def test_what_a_sender_calls_itself_fills_no_log(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.ask(request(2, "x" * 100_000))
    assert len(caplog.messages[0]) < 500


@dataclass
class Settings:
    authentication_enabled: bool = True
    authorization_enabled: bool = True
    ha_authentication_enable: bool = False
    bind_address: str = "127.0.0.1"
    sources: dict[str, str] = field(default_factory=dict)


def test_what_is_hardly_meant_so_is_said_at_the_start(caplog: pytest.LogCaptureFixture) -> None:
    warn_of_gaps(Settings(), has_users=True)
    warn_of_gaps(Settings(False, False, bind_address="0.0.0.0"), has_users=False)
    warn_of_gaps(Settings(ha_authentication_enable=True, bind_address="0.0.0.0"), has_users=True)
    assert caplog.messages == []
    warn_of_gaps(Settings(authentication_enabled=False), has_users=True)
    assert "believed to be who they say they are" in caplog.messages[0]
    warn_of_gaps(Settings(), has_users=False)
    assert "set initAuthenticationUser" in caplog.messages[1]
    warn_of_gaps(Settings(bind_address="0.0.0.0"), has_users=True)
    assert "the HA port sends the log to anybody" in caplog.messages[2]


@pytest.mark.parametrize("address", ["0.0.0.0", "", "10.0.0.1", "broker.example", "::"])
def test_access_control_with_an_open_ha_port_is_refused_unless_said_explicitly(address: str) -> None:
    with pytest.raises(RefusedValue, match="haAuthenticationEnable=false"):
        require_ha_guard(Settings(bind_address=address))
    require_ha_guard(Settings(bind_address=address, sources={"haAuthenticationEnable": "--set"}))
    require_ha_guard(Settings(bind_address=address, ha_authentication_enable=True))
    require_ha_guard(Settings(bind_address=address, authentication_enabled=False))


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "localhost", "127.0.0.9"])
def test_on_the_loopback_an_open_ha_port_is_no_reason_to_refuse(address: str) -> None:
    require_ha_guard(Settings(bind_address=address))


def test_what_may_be_handled_as_frames_is_for_the_gate_to_say(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.now = 2
    assert world.guard.admit(world.line, bytes(10)) == 5
    world.now = 0
    assert world.guard.admit(world.line, bytes(10)) == 0, (
        "what cannot be checked at once is checked one by one"
    )
    assert "could not be checked" in caplog.text


def test_what_takes_long_to_check_is_checked_beside_the_loop_and_holds_up_nothing() -> None:
    world = World()
    world.ask(request(1, body=b"long"), request(2), request(3, "no", body=b"long"))
    assert [[command.opaque for command in step] for step in world.passed] == [[2]]
    assert [[type(condition) for condition in wait.on] for wait, _ in world.held] == [[OffLoop], [OffLoop]]
    assert world.line.sent == []
    world.check()
    world.check()
    assert [[command.opaque for command in step] for step in world.passed] == [[2], [1]]
    assert [(one.code, one.opaque, one.remark) for one in world.line.sent] == [(16, 3, "no")]


def test_a_change_of_the_rules_while_a_request_is_checked_has_it_checked_again() -> None:
    world = World()
    command = request(1, body=b"long")
    world.ask(command)
    world.gate.changes += 1
    command.remark = "no longer"
    world.check()
    assert (world.passed, world.line.sent) == ([], [])
    world.check()
    assert (world.passed, [one.remark for one in world.line.sent]) == ([], ["no longer"])


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (Outcome(timed_out=True), ResponseCode.SYSTEM_BUSY),
        (Outcome(False, error=Refused(ResponseCode.SYSTEM_BUSY, "too many")), ResponseCode.SYSTEM_BUSY),
        (Outcome(False, error=ValueError("odd")), ResponseCode.SYSTEM_ERROR),
    ],
)
def test_a_request_that_could_not_be_checked_is_not_served(outcome: Outcome, code: int) -> None:
    world = World()
    world.ask(request(1, body=b"long"), request(2, body=b"long", flag=FLAG_ONEWAY))
    for _, ended in world.held:
        ended(outcome)
    assert world.passed == []
    assert [(one.opaque, one.code) for one in world.line.sent] == [(1, code)]
