"""Blocking forms of asynchronous classes: the thread with the event loop, and methods that wait for it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import inspect
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

from orbitmq.client.core.errors import NotRunning


class Core(Protocol):
    """The asynchronous object behind a blocking one."""

    async def start(self) -> Any: ...

    async def close(self) -> None: ...


P = ParamSpec("P")
R = TypeVar("R")
CoreT = TypeVar("CoreT", bound=Core)
WrapperT = TypeVar("WrapperT", bound="SyncWrapper[Any]")


class Background:
    """The thread with the event loop, a daemon: a program that forgets to close something still ends."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        thread = threading.Thread(target=self._loop.run_forever, name="orbitmq event loop", daemon=True)
        thread.start()

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """Runs `work` on the loop and returns its result. An interrupt cancels it."""
        if self.pid != os.getpid():
            work.close()
            raise NotRunning("made before this process was forked: make another one here")
        if asyncio._get_running_loop() is self._loop:
            work.close()
            raise RuntimeError("an async handler runs on the event loop: it must not wait for it")
        future = self.start(work)
        try:
            return future.result()
        except BaseException:
            if not future.done():
                future.cancel()
            raise

    def start(self, work: Coroutine[Any, Any, R]) -> concurrent.futures.Future[R]:
        """Runs `work` on the loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)


_background: Background | None = None
_starting = threading.Lock()


def get_background() -> Background:
    """The thread of this process; started when it is first asked for, and again after a fork."""
    global _background, _starting
    if _background is not None and _background.pid == os.getpid():
        return _background
    if _background is not None:
        _starting = threading.Lock()  # the one of the parent may have been held when it forked
        _background = None
    with _starting:
        if _background is None:
            _background = Background()
    return _background


class SyncWrapper(Generic[CoreT]):
    """The common part of the blocking forms."""

    _make: Callable[..., CoreT]

    def _set_up(self, core: CoreT) -> None:
        self._core = core
        self._background: Background | None = None

    def _run(self, work: Coroutine[Any, Any, R]) -> R:
        background = self._background or get_background()
        return background.run(work)

    def start(self) -> Self:
        """Starts it; `with` does so, too."""
        self._background = get_background()
        self._run(self._core.start())
        return self

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self._run(self._core.close())


def constructor_of(
    make: Callable[P, Any],
) -> Callable[[Callable[[WrapperT], None]], Callable[Concatenate[WrapperT, P], None]]:
    """A constructor with the arguments of the class behind it."""

    def constructor(_: Callable[[WrapperT], None]) -> Callable[Concatenate[WrapperT, P], None]:
        def init(self: WrapperT, /, *args: P.args, **kwargs: P.kwargs) -> None:
            self._set_up(make(*args, **kwargs))

        # For `help` and editors: the names and defaults, which `*args` does not show.
        taken = inspect.signature(make)
        own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
        shown: Any = init
        shown.__signature__ = taken.replace(
            parameters=[own, *taken.parameters.values()], return_annotation=None
        )

        return init

    return constructor


def waiting(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Any, P], R]:
    """A method that runs the method of the same name on the loop."""

    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = self._run(method(self._core, *args, **kwargs))
        return result

    return call


def on_loop(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """A method that calls the plain method of the same name on the loop."""

    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = self._run(later(method, self._core, *args, **kwargs))
        return result

    return call


async def later(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """A plain call, made on the loop, since its data belongs to the loop's thread."""
    return function(*args, **kwargs)
