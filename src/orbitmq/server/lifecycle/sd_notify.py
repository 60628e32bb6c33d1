"""systemd's protocol sd_notify: a service of type notify reports that it is ready, stopping or alive.

Without NOTIFY_SOCKET in the environment nothing is sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Mapping

log = logging.getLogger(__name__)

EXTENSION_SECONDS = 60
"""Additional time that a start or stop asks for, each time; it asks at a third of this."""


class Notifier:
    """Reports the state of this process to its service manager. `keep_alive` has to run for the watchdog."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        environment = os.environ if environment is None else environment
        self._address = _address(environment.get("NOTIFY_SOCKET", ""))
        self._watchdog_seconds = _watchdog_seconds(environment)
        self._is_running = False

    @property
    def is_wanted(self) -> bool:
        """True if a service manager listens."""
        return self._address is not None

    def ready(self, status: str) -> None:
        """The service does its work from now on."""
        self._is_running = True
        self._send("READY=1", f"STATUS={status}")

    def status(self, text: str) -> None:
        """A line for people who look at the service."""
        self._send(f"STATUS={text}")

    def stopping(self) -> None:
        """The service is about to end."""
        self._is_running = False
        self._send("STOPPING=1", "STATUS=stopping")

    async def keep_alive(self) -> None:
        """Asks for more time while the service starts or stops, and reports to the watchdog, twice in each of
        its intervals, that the loop runs. Runs until it is cancelled.
        """
        if not self.is_wanted:
            return
        while True:
            if not self._is_running:
                self._send(f"EXTEND_TIMEOUT_USEC={EXTENSION_SECONDS * 1_000_000}")
            if self._watchdog_seconds:
                self._send("WATCHDOG=1")
            await asyncio.sleep(min(EXTENSION_SECONDS / 3, (self._watchdog_seconds or EXTENSION_SECONDS) / 2))

    def _send(self, *lines: str) -> None:
        if self._address is None:
            return
        text = "\n".join(line.replace("\n", " ") for line in lines)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as peer:
                peer.setblocking(False)
                peer.sendto(text.encode(), self._address)
        except OSError as error:
            log.warning("the service manager cannot be notified of %s: %s", lines[0], error)


def _address(path: str) -> str | None:
    if path.startswith("@"):
        return "\0" + path[1:]
    return path if path.startswith("/") else None


def _watchdog_seconds(environment: Mapping[str, str]) -> float:
    """The interval of the watchdog; 0 if there is none, or if it watches another process."""
    with contextlib.suppress(ValueError):
        if environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid()):
            return int(environment.get("WATCHDOG_USEC", "0")) / 1_000_000
    return 0.0
