from __future__ import annotations

import threading

import pytest

from orbitmq.server.errors import StartError
from orbitmq.server.tasks.threads import Threads


async def test_all_threads_are_there_after_the_start_and_gone_after_the_end() -> None:
    threads, before = Threads(), set(threading.enumerate())
    await threads.start()
    ours = {one for one in threading.enumerate() if one.name.startswith("orbitmq-")} - before
    kinds = {one.name.partition("_")[0].removeprefix("orbitmq-") for one in ours}
    assert kinds == {"flush", "reserve", "read", "query", "save", "periodic"}
    threads.stop()
    assert not any(one.is_alive() for one in ours)


async def test_flushes_go_on_while_the_other_threads_have_ended() -> None:
    threads = Threads()
    threads.stop_all_but_flush()
    assert threads.flush.submit(lambda: 7).result() == 7
    with pytest.raises(RuntimeError):
        threads.save.submit(lambda: 7)
    threads.stop()


async def test_a_machine_without_threads_is_an_error_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    threads = Threads()
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(StartError, match="allow this process more memory or threads"):
        await threads.start()
    monkeypatch.undo()
    threads.stop()
