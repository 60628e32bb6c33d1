"""State that all requests of one console share."""

from __future__ import annotations

import asyncio
import secrets
import time

from orbitmq.client import AsyncDelayClient
from orbitmq.console.cluster import Cluster
from orbitmq.console.history_file import HistoryFile
from orbitmq.console.masking import Masks
from orbitmq.console.redrives import Redrives
from orbitmq.console.schemas import Schemas
from orbitmq.console.security.audit import AuditLog
from orbitmq.console.security.login_limit import LoginLimit
from orbitmq.console.security.refused_logins import RefusedLogins
from orbitmq.console.security.sessions import Sessions
from orbitmq.console.security.single_sign_on import SingleSignOn
from orbitmq.console.security.users import User, UserFile, user_of_credentials
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
        self.inflating = asyncio.Semaphore(2)
        """The bodies of an answer take 32 MiB: so many answers at a time."""
        self.audit = AuditLog(settings.audit_file)
        self.refused_logins = RefusedLogins(settings.refused_logins_file)
        self.redrives = Redrives(settings.journal_file, self.audit)
        self.masks = Masks(settings.masked_fields)
        self.schemas = Schemas(settings.schemas_file)
        self.open_csrf_token = secrets.token_urlsafe(32)
        """The token of changes while no login is needed."""
        self.history_file = HistoryFile(settings.history_file) if settings.history_file else None
        self.clusters: dict[str, Cluster] = {}
        self._began_with_users = bool(self.users.users)
        credentials = settings.access.credentials
        self._own_user = user_of_credentials(credentials) if credentials else None

    @property
    def wants_login(self) -> bool:
        """True if users have to log in: there are some, or were at the start, or the console has credentials
        of its own, which are not for every user of this machine.
        """
        return (
            not self.settings.is_loopback
            or self._own_user is not None
            or self.sign_on is not None
            or self._began_with_users
            or bool(self.users.users)
        )

    @property
    def takes_passwords(self) -> bool:
        """True if there are users with passwords, or no other way to log in."""
        return self.sign_on is None or bool(self.users.users)

    def find_user(self, name: str) -> User | None:
        """The user of that name who may have a session. Without users and a provider it is the one whose
        credentials the console has.
        """
        own = self._own_user
        if own is not None and self.takes_credentials:
            return own if own.name == name else None
        return self.users.users.get(name)

    @property
    def takes_credentials(self) -> bool:
        """True if the console's own credentials are those of a login: there is no other."""
        return (
            self._own_user is not None
            and self.sign_on is None
            and not self._began_with_users
            and not self.users.users
        )

    def check_login(self, name: str, password: str) -> User | None:
        """The user of that name and password, or None; takes as long for an unknown name."""
        return self.users.check(self.find_user(name), password)

    @property
    def uses_tls(self) -> bool:
        """True if browsers come by https."""
        return self.settings.tls_cert is not None

    async def start(self) -> None:
        """Connects to nothing yet: clusters may be down. Raises HistoryUnusable; then nothing is started."""
        if self.history_file is not None:
            await self.history_file.open(time.time())
        for name, namesrv in self.settings.clusters.items():
            settings = self.settings
            cluster = Cluster(name, namesrv, settings.access, settings.sample_seconds, self.history_file)
            if (url := settings.delay_services.get(name)) is not None:
                cluster.delays = AsyncDelayClient(url, token=settings.delay_token)
            cluster.start()
            self.clusters[name] = cluster
        await self.redrives.start({name: one.admin for name, one in self.clusters.items()})

    async def close(self) -> None:
        """Ends all connections. Redrives continue with the next start."""
        self.refused_logins.write()
        await self.redrives.close()
        for cluster in self.clusters.values():
            await cluster.close()
        if self.history_file is not None:
            await self.history_file.close()
