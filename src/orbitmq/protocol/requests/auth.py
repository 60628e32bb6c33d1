"""Administration of users and access rules."""

from __future__ import annotations

from orbitmq.protocol.bodies.auth import AclInfo, AclInfoList, UserInfo, UserInfoList
from orbitmq.protocol.schema.declare import JsonReply, Request, Void, request


@request(3001)
class AuthCreateUser(Request[Void]):
    """Create a user; the header's name counts, not the body's."""

    username: str | None = None
    body: UserInfo | None = None


@request(3002)
class AuthUpdateUser(Request[Void]):
    """Change what the body has of a user."""

    username: str | None = None
    body: UserInfo | None = None


@request(3003)
class AuthDeleteUser(Request[Void]):
    """Delete a user and its rules."""

    username: str | None = None


@request(3004)
class AuthGetUser(Request[JsonReply[UserInfo | None]]):
    """One user."""

    username: str | None = None


@request(3005)
class AuthListUser(Request[JsonReply[UserInfoList | None]]):
    """Users whose name holds `filter`."""

    filter: str | None = None


@request(3006)
class AuthCreateAcl(Request[Void]):
    """Add rules to a subject, or replace those about the same resource."""

    subject: str | None = None
    body: AclInfo | None = None


@request(3007)
class AuthUpdateAcl(Request[Void]):
    """The same as AUTH_CREATE_ACL."""

    subject: str | None = None
    body: AclInfo | None = None


@request(3008)
class AuthDeleteAcl(Request[Void]):
    """Delete the rules of a subject, or one about a resource."""

    subject: str | None = None
    policy_type: str | None = None
    resource: str | None = None


@request(3009)
class AuthGetAcl(Request[JsonReply[AclInfo | None]]):
    """The rules of a subject."""

    subject: str | None = None


@request(3010)
class AuthListAcl(Request[JsonReply[AclInfoList | None]]):
    """Rules by part of subject and resource."""

    subject_filter: str | None = None
    resource_filter: str | None = None
