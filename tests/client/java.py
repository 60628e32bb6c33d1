"""Apache's Java client and mqadmin beside ours, in a JVM that is told what to do line by line."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.needs import need
from tests.peers.mqadmin_shell import Shell


class Java:
    """`tests.peers.mqadmin_shell.Shell` for tests with an event loop."""

    def __init__(self, namesrv: str) -> None:
        self._namesrv = namesrv
        self._shell: Shell

    async def __aenter__(self) -> Self:
        need("java", "mvn")
        home = Path(tempfile.mkdtemp(prefix="java-"))
        self._shell = await asyncio.to_thread(Shell, self._namesrv, home)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._shell.close)

    async def done(self, line: str) -> str:
        """Runs a line that must not throw, and gives what it prints."""
        return await asyncio.to_thread(self._shell.done, line)
