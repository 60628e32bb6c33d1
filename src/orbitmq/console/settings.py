"""Start of a console, and the starts that are refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from orbitmq.access import Access
from orbitmq.admin.bodies import MAX_LIMIT_BYTES
from orbitmq.console.security.single_sign_on import Provider
from orbitmq.net.address import is_loopback
from orbitmq.options import OptionError
from orbitmq.protocol.records.compression import DEFAULT_MAX_INFLATED_BYTES

DEFAULT_PORT = 8080
_CLUSTER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """All settings of a console, from its start. Raises OptionError for values that are not allowed."""

    clusters: Mapping[str, str]
    """Name servers by the name that the pages give their cluster; the first one is shown first."""
    data_dir: Path
    """Folder for users, the audit log and journals. It is made when something is written to it."""
    listen: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    """0: any free port."""
    tls_cert: Path | None = None
    tls_key: Path | None = None
    access: Access = field(default_factory=Access)
    """The user and the TLS settings with which brokers are asked."""
    provider: Provider | None = None
    """The OpenID Connect provider at which users log in."""
    sample_seconds: float = 10.0
    """Interval between points of the charts."""
    max_inflated_body_bytes: int = DEFAULT_MAX_INFLATED_BYTES
    """Maximum size of one body that was compressed, once it is inflated."""
    history_file: Path | None = None
    """SQLite file that keeps the charts over restarts; without it they are in memory only."""
    delay_services: Mapping[str, str] = field(default_factory=dict)
    """Addresses of the APIs of delay services by the name of their cluster, for the page of what waits."""
    delay_token: str | None = None
    """The token of those APIs."""
    masked_fields: tuple[str, ...] = ()
    """Names of fields whose values are hidden, in bodies and properties."""

    def __post_init__(self) -> None:
        if not 1 <= self.max_inflated_body_bytes <= MAX_LIMIT_BYTES:
            raise OptionError("the maximum of an inflated body is between 1 byte and 1 GiB")
        if not self.clusters:
            raise OptionError("a console needs a cluster: --namesrv HOST:PORT")
        for name in self.clusters:
            if not _CLUSTER_NAME.fullmatch(name):
                raise OptionError(
                    f"{name!r} is no name for a cluster: use letters, digits and ._-, 64 at most"
                )
        if unknown := sorted(self.delay_services.keys() - self.clusters.keys()):
            raise OptionError(f"--delay: {unknown[0]} is none of the clusters {', '.join(self.clusters)}")
        if self.tls_key is not None and self.tls_cert is None:
            raise OptionError("a key needs its certificate: --https-cert")
        if self.is_loopback:
            return
        if self.provider is None and not self.users_file.exists():
            raise OptionError(
                f"a console on {self.listen} needs users: orbitmq console set-user NAME --role admin "
                f"--data-dir {self.data_dir}; or a provider: --oidc-issuer"
            )
        if self.tls_cert is None:
            raise OptionError(f"a console on {self.listen} needs TLS: --https-cert FILE --https-key FILE")

    @property
    def is_loopback(self) -> bool:
        """True if only this machine can reach it."""
        return is_loopback(self.listen)

    @property
    def users_file(self) -> Path:
        """The users who may log in; without this file and without credentials no login is needed."""
        return self.data_dir / "users"

    @property
    def audit_file(self) -> Path:
        """One JSON object per change."""
        return self.data_dir / "audit.jsonl"

    @property
    def refused_logins_file(self) -> Path:
        """One JSON object for the refused logins of a minute from one address."""
        return self.data_dir / "refused-logins.jsonl"

    @property
    def schemas_file(self) -> Path:
        return self.data_dir / "schemas.json"

    @property
    def journal_file(self) -> Path:
        """The dead letters that were sent again, and those that are to be."""
        return self.data_dir / "redrives.sqlite3"
