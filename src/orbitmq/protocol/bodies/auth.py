"""Users and access rules, as requests carry them and as brokers store them."""

from __future__ import annotations

from dataclasses import dataclass, field

from orbitmq.protocol.schema.json_body import JsonBody


@dataclass(slots=True)
class UserInfo(JsonBody):
    """A user. The password travels in clear: protect the connection."""

    username: str | None = None
    password: str | None = field(default=None, repr=False)
    user_type: str | None = None
    """Super or Normal."""
    user_status: str | None = None
    """enable or disable."""


@dataclass(slots=True)
class PolicyEntryInfo(JsonBody):
    """The permitted actions on one resource."""

    resource: str | None = None
    actions: list[str] | None = None
    source_ips: list[str] | None = None
    decision: str | None = None


@dataclass(slots=True)
class PolicyInfo(JsonBody):
    """Entries of one type: Custom ones are looked at before Default ones."""

    policy_type: str | None = None
    entries: list[PolicyEntryInfo] | None = None


@dataclass(slots=True)
class AclInfo(JsonBody):
    """All policies of a subject (`User:name`)."""

    subject: str | None = None
    policies: list[PolicyInfo] | None = None


@dataclass(slots=True)
class UserInfoList(JsonBody):
    """A bare list of users."""

    BARE = "users"

    users: list[UserInfo] = field(default_factory=list)


@dataclass(slots=True)
class AclInfoList(JsonBody):
    """A bare list of access rules."""

    BARE = "acls"

    acls: list[AclInfo] = field(default_factory=list)


@dataclass(slots=True)
class SessionCredentials(JsonBody):
    """Keys of a client; the form of innerClientAuthenticationCredentials."""

    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    security_token: str | None = field(default=None, repr=False)
    signature: str | None = field(default=None, repr=False)


@dataclass(slots=True)
class User(JsonBody):
    """A user as stored: numbers instead of names (subject 1 User; type 1 Super, 2 Normal; status 1, 2)."""

    username: str | None = None
    password: str | None = field(default=None, repr=False)
    subject_type: int = 1
    user_type: int | None = None
    user_status: int | None = None


@dataclass(slots=True)
class Resource(JsonBody):
    """The resource of a stored rule: type 1 any, 2 Cluster, 4 Topic, 5 Group.

    Pattern: 1 any, 2 literal, 3 prefix.
    """

    resource_type: int | None = None
    resource_name: str | None = None
    resource_pattern: int | None = None


@dataclass(slots=True)
class Environment(JsonBody):
    """From where a stored rule holds."""

    source_ips: list[str] | None = None


@dataclass(slots=True)
class PolicyEntry(JsonBody):
    """A stored rule for one resource."""

    resource: Resource | None = None
    actions: list[int] | None = None
    environment: Environment | None = None
    decision: int | None = None


@dataclass(slots=True)
class Policy(JsonBody):
    """Stored rules of one type (1 Custom, 2 Default)."""

    policy_type: int | None = None
    entries: list[PolicyEntry] | None = None


@dataclass(slots=True)
class Acl(JsonBody):
    """All stored rules of a subject."""

    subject: User | None = None
    policies: list[Policy] | None = None
