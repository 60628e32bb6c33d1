"""Orders with any values are carried out or refused; none stops the intake or the delivery of others."""

import random

import pytest

from orbitmq.delay_service.rules.intake import SourceMessage
from orbitmq.delay_service.rules.orders import CONTROL
from orbitmq.delay_service.store.records import Content

VALUES = [
    "", " ", "\x00", "a\x02b", "x" * 2000, "a/b", "0", "1", "-1", "1.5", "1e309", "NaN", "\uff19", "1h", "0s",
    "1ms", "9" * 30, "1700000000500", "9999-12-31T23:59:59.999Z", "0001-01-01T00:00:00+23:59",
    "1969-12-31T23:59:59Z",
    "* * * * * *", "0 0 31 2 *", "@daily", "*/0 * * * *", "Europe/Berlin", "../../etc", "all", "none", "move",
    "cancel", "a", "t", "events/k", "nowhere/t", "main/orbitmq_delay", "%RETRY%g", "http://127.0.0.1/",
]  # fmt: skip
HEADERS = [("h", b"\xff"), ("TAGS", None), ("", b"1"), ("KEYS", b""), ("rocketmq.flag", b"7")]


@pytest.mark.parametrize("seed", range(2))
def test_whatever_is_asked_for(world, seed):
    chance = random.Random(seed)
    names = sorted(CONTROL)
    number = 700
    for _ in range(number):
        control = {"delay.topic": chance.choice(("t", "events/k")), "delay.after": "100ms"}
        for _ in range(chance.randrange(3)):
            control[chance.choice(names)] = "" if chance.random() < 0.3 else chance.choice(VALUES)
        if chance.random() < 0.2:
            del control[chance.choice(sorted(control))]
        content = Content(b"b", {"p": "1"})
        if chance.random() < 0.3:
            content = Content(chance.choice((b"b", b"", None)), None, 0, [chance.choice(HEADERS)], b"a b")
        stored = chance.choice((world.now, world.now, None))
        world.log.append(SourceMessage(len(world.log), stored, control, content))
        world.take_in()
        world.now += chance.choice((0, 10, 1000))
        world.deliver()
    assert sum(world.intake.counts.orders.values()) == number
    assert world.bodies("main/t")
