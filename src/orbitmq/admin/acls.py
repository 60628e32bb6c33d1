"""Permissions of users. Every broker has rules of its own."""

from __future__ import annotations

from collections.abc import Sequence

from orbitmq.admin.admin import Admin
from orbitmq.protocol.bodies.auth import AclInfo, PolicyEntryInfo, PolicyInfo
from orbitmq.protocol.requests.auth import (
    AuthCreateAcl,
    AuthDeleteAcl,
    AuthGetAcl,
    AuthListAcl,
    AuthUpdateAcl,
)


async def put_rules(
    admin: Admin,
    address: str,
    user: str,
    resources: Sequence[str],
    actions: Sequence[str],
    decision: str = "Allow",
    source_ips: Sequence[str] = (),
    policy: str = "Custom",
) -> None:
    """Adds a rule for each resource to a user of one broker, or replaces the one that there is."""
    entries = [
        PolicyEntryInfo(resource, list(actions), list(source_ips) or None, decision) for resource in resources
    ]
    subject = subject_of(user)
    await admin.call(address, AuthCreateAcl(subject, AclInfo(subject, [PolicyInfo(policy, entries)])))


async def delete_rules(
    admin: Admin, address: str, user: str, resource: str | None = None, policy: str | None = None
) -> None:
    """Removes the rule of a user about a resource, or all its rules, from one broker."""
    await admin.call(address, AuthDeleteAcl(subject_of(user), policy, resource))


async def rules_of(admin: Admin, address: str, user: str) -> AclInfo | None:
    """The rules of a user on one broker."""
    return (await admin.call(address, AuthGetAcl(subject_of(user)))).body


async def list_rules(
    admin: Admin, address: str, subject_part: str | None = None, resource_part: str | None = None
) -> list[AclInfo]:
    """The rules on one broker, by parts of their subjects and resources."""
    body = (await admin.call(address, AuthListAcl(subject_part, resource_part))).body
    return [] if body is None else body.acls


async def copy_rules(admin: Admin, source: str, target: str, users: Sequence[str] = ()) -> list[str]:
    """Adds the rules of users on one broker to those on another, where the users have to be; gives them."""
    acls = await list_rules(admin, source)
    if users:
        wanted = set(map(subject_of, users))
        acls = [acl for acl in acls if acl.subject in wanted]
    for acl in acls:
        await admin.call(target, AuthUpdateAcl(acl.subject, acl))
    return [acl.subject or "" for acl in acls]


def subject_of(user: str) -> str:
    """`User:name`, whichever of the two was given."""
    return user if user.startswith("User:") else f"User:{user}"
