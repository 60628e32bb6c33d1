"""State that all requests of one console share."""

from __future__ import annotations

import asyncio
import secrets
import time

from orbitmq.console.cluster import Cluster
from orbitmq.console.history_file import HistoryFile
from orbitmq.console.redrives import Redrives
from orbitmq.console.schemas import Schemas
from orbitmq.console.security.audit import AuditLog
from orbitmq.console.security.login_limit import LoginLimit
from orbitmq.console.security.sessions import Sessions
from orbitmq.console.security.single_sign_on import SingleSignOn
from orbitmq.console.security.users import UserFile
from orbitmq.console.settings import ConsoleSettings


class Console:
    """Clusters, users and the audit log. `start` and `close` belong to one event loop."""

    def __init__(self, settings: ConsoleSettings) -> None:
        self.settings = settings
        self.users = UserFile(settings.users_file)
        self.sessions = Sessions()
        self.sign_on = SingleSignOn(settings.provider) if settings.provider else None
        self.login_limit = LoginLimit()
        self.hashing = asyncio.Semaphore(2)
        """A hash takes 16 MiB: so many at a time."""
        self.audit = AuditLog(settings.audit_file)
        self.redrives = Redrives(settings.journal_file, self.audit)
        self.schemas = Schemas(settings.schemas_file)
        self.open_csrf_token = secrets.token_urlsafe(32)
        """The token of changes while nobody has to log in."""
        self.history_file = HistoryFile(settings.history_file) if settings.history_file else None
        self.clusters: dict[str, Cluster] = {}
        self._began_with_users = bool(self.users.users)

    @property
    def wants_login(self) -> bool:
        """True if users have to log in: there are some, or were at the start."""
        return (
            not self.settings.is_loopback
            or self.sign_on is not None
            or self._began_with_users
            or bool(self.users.users)
        )

    @property
    def takes_passwords(self) -> bool:
        """True if there are users with passwords, or nobody else could log in."""
        return self.sign_on is None or bool(self.users.users)

    @property
    def uses_tls(self) -> bool:
        """True if browsers come by https."""
        return self.settings.tls_cert is not None

    async def start(self) -> None:
        """Connects to nothing yet: clusters may be down. Raises HistoryUnusable; then nothing is started."""
        if self.history_file is not None:
            await self.history_file.open(time.time())
        for name, namesrv in self.settings.clusters.items():
            cluster = Cluster(
                name, namesrv, self.settings.access, self.settings.sample_seconds, self.history_file
            )
            cluster.start()
            self.clusters[name] = cluster
        await self.redrives.start({name: one.admin for name, one in self.clusters.items()})

    async def close(self) -> None:
        """Ends all connections. Redrives go on with the next start."""
        await self.redrives.close()
        for cluster in self.clusters.values():
            await cluster.close()
        if self.history_file is not None:
            await self.history_file.close()
