import socket

import pytest

from orbitmq.net import probing
from orbitmq.net.probing import REFUSALS, Reach, probe


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "REFUSAL_SECONDS", 0.0)


async def test_a_listener_that_never_answers_listens() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=5) as paused:
        assert await probe(f"127.0.0.1:{paused.getsockname()[1]}") is Reach.LISTENS


async def test_refusals_count_only_if_all_tries_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = one.getsockname()[1]
    assert await probe(f"127.0.0.1:{port}") is Reach.REFUSED
    assert REFUSALS >= 3
    tries = iter([Reach.REFUSED] * (REFUSALS - 1) + [Reach.LISTENS])

    async def next_try(host: str, port: int) -> Reach:
        return next(tries)

    monkeypatch.setattr(probing, "_try", next_try)
    assert await probe(f"127.0.0.1:{port}") is Reach.LISTENS


async def test_a_name_without_an_address_and_a_silent_host_are_not_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert await probe("no-such-host.invalid:10911") is Reach.UNKNOWN
    monkeypatch.setattr(probing, "PROBE_SECONDS", 0.05)
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        waiting = []
        for _ in range(4):  # the kernel answers nothing once its queue is full
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
            waiting.append(one)
        assert await probe(f"127.0.0.1:{port}") is Reach.UNKNOWN
        for one in waiting:
            one.close()
