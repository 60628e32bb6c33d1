"""Users of brokers with access control. Every broker has users of its own."""

from __future__ import annotations

from collections.abc import Sequence

from orbitmq.admin.admin import Admin
from orbitmq.protocol.bodies.auth import UserInfo
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.requests.auth import (
    AuthCreateUser,
    AuthDeleteUser,
    AuthGetUser,
    AuthListUser,
    AuthUpdateUser,
)


class NoSuchUser(OrbitError):
    """No broker that was asked has the user."""


class NoSecret(OrbitError):
    """A broker gives out no secrets, so users cannot be copied from it."""


async def create_user(admin: Admin, address: str, name: str, password: str, kind: str = "normal") -> None:
    """Makes a user on one broker."""
    await admin.call(address, AuthCreateUser(name, UserInfo(name, password, kind)))


async def update_user(
    admin: Admin,
    address: str,
    name: str,
    password: str | None = None,
    kind: str | None = None,
    status: str | None = None,
) -> None:
    """Changes of a user on one broker what is given."""
    await admin.call(address, AuthUpdateUser(name, UserInfo(name, password, kind, status)))


async def delete_user(admin: Admin, address: str, name: str) -> None:
    """Removes a user and its rules from one broker."""
    await admin.call(address, AuthDeleteUser(name))


async def list_users(admin: Admin, address: str, part: str | None = None) -> list[UserInfo]:
    """The users of one broker whose names hold `part`; secrets are in them if the broker gives them out."""
    body = (await admin.call(address, AuthListUser(part))).body
    return [] if body is None else body.users


async def copy_users(admin: Admin, source: str, target: str, names: Sequence[str] = ()) -> list[str]:
    """Makes users of one broker on another, or changes them there to be the same; gives their names.

    Raises NoSecret where the source does not give them out: Apache's does, OrbitMQ's to super users only.
    """
    users = await list_users(admin, source)
    if names:
        known = {user.username: user for user in users}
        missing = [name for name in names if name not in known]
        if missing:
            raise NoSuchUser(f"{source} has no user {missing[0]}")
        users = [known[name] for name in names]
    for user in users:
        if not user.password:
            raise NoSecret(f"{source} does not give out the secret of user {user.username}")
    for user in users:
        there = (await admin.call(target, AuthGetUser(user.username))).body
        request = AuthCreateUser if there is None else AuthUpdateUser
        await admin.call(target, request(user.username, user))
    return [user.username or "" for user in users]
