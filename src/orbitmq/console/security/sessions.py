"""Sessions of users who have logged in: kept in memory, so a restart logs everybody out."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass

from orbitmq.console.security.roles import Role

MAX_SESSIONS = 1000
LIFETIME_SECONDS = 12 * 3600
IDLE_SECONDS = 3600


@dataclass(slots=True)
class Session:
    """One login. `csrf_token` has to come with every change; other sites cannot read it."""

    user: str
    role: Role
    csrf_token: str
    began: float
    used: float
    lifetime_seconds: float = LIFETIME_SECONDS
    external: bool = False
    """The rights are a provider's of the time of the login, and not of the file of users."""
    reads_bodies: bool = True


class Sessions:
    """Sessions by their token. Times are seconds of any clock that only goes forward."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def open(
        self,
        user: str,
        role: Role,
        now: float,
        *,
        lifetime_seconds: float = LIFETIME_SECONDS,
        external: bool = False,
        reads_bodies: bool = True,
    ) -> tuple[str, Session]:
        """A new session and its token; the one unused for longest ends where there are too many."""
        token = secrets.token_urlsafe(32)
        csrf_token = secrets.token_urlsafe(32)
        session = Session(user, role, csrf_token, now, now, lifetime_seconds, external, reads_bodies)
        self._sessions[token] = session
        while len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return token, session

    def find(self, token: str, now: float) -> Session | None:
        """The session of a token, unless it is over."""
        session = self._sessions.get(token)
        if session is None:
            return None
        if now - session.began > session.lifetime_seconds or now - session.used > IDLE_SECONDS:
            del self._sessions[token]
            return None
        session.used = now
        self._sessions.move_to_end(token)
        return session

    def close(self, token: str) -> None:
        self._sessions.pop(token, None)
