"""Places in the code of a program, for log lines: its own frames of a stack, without those of libraries."""

from __future__ import annotations

import asyncio
import sysconfig
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import CodeType, FrameType

from orbitmq.client.core.background import Tasks

MOST_FRAMES = 3
OURS = (str(Path(__file__).parents[2]), "src/orbitmq/")
"""This package, and compiled modules of it, which know the path that they were built from."""
PATHS = sysconfig.get_paths()
INSTALLED = (PATHS["purelib"], PATHS["platlib"])
ASYNCIO = str(Path(asyncio.__file__).parent)
TASK = Tasks._guarded.__code__
"""The beginning of a client's task: uvloop has no frames of its own."""


def frames_of_error(error: BaseException) -> str:
    """The frames of the program in an exception's traceback, the outermost first; empty without any."""
    return _shown((frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__))


def frames_of_stack(innermost: FrameType | None) -> str:
    """The same for a stack that is running."""
    if innermost is None:
        return ""
    stack = [(frame.f_code, line) for frame, line in traceback.walk_stack(innermost)]
    return _shown(reversed(stack))


def _shown(frames: Iterable[tuple[CodeType, int | None]]) -> str:
    """Frames within the event loop's last call, but for those of this package and of Python's own library.

    Installed packages are left out, unless the program is one itself. Of many frames the first and the last
    are shown.
    """
    called: list[tuple[CodeType, int | None]] = []
    for code, line in frames:
        if code is TASK or code.co_filename.startswith(ASYNCIO):
            called = []
        elif not code.co_filename.startswith(OURS) and not _is_pythons(code.co_filename):
            called.append((code, line))
    own = [one for one in called if not one[0].co_filename.startswith(INSTALLED)] or called
    if len(own) > MOST_FRAMES:
        own = [own[0], *own[1 - MOST_FRAMES :]]
    return ", ".join(f"{_path(code.co_filename)}:{line} in {code.co_name}" for code, line in own)


def _is_pythons(path: str) -> bool:
    return path.startswith("<frozen") or (path.startswith(PATHS["stdlib"]) and not path.startswith(INSTALLED))


def _path(path: str) -> str:
    """Relative to the working directory, if it is in there."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return path
