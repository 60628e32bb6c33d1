"""The file of users: `name:role:hash`, a line each, readable by its owner alone.

The role of users who may not read bodies of messages ends with `,no-bodies`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from orbitmq.console.security.passwords import hash_password, hash_secret, is_password
from orbitmq.console.security.roles import Role, parse_role
from orbitmq.options import OptionError
from orbitmq.protocol.remoting.signing import Credentials
from orbitmq.whole_files import write_whole

MAX_USERS = 1000
NO_BODIES = ",no-bodies"
_NAME = re.compile(r"[A-Za-z0-9._@-]{1,64}")


@dataclass(frozen=True, slots=True)
class User:
    """One who may log in."""

    name: str
    role: Role
    password: str
    """The hash."""
    reads_bodies: bool = True
    """The user may read bodies of messages."""

    @property
    def line(self) -> str:
        return f"{self.name}:{self.role.title}{'' if self.reads_bodies else NO_BODIES}:{self.password}\n"


class UserFile:
    """Reads the file when it has changed: users come and go without a restart."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int] | None = None
        self._users: dict[str, User] = {}
        self._nobody = hash_password("a password that nobody has")

    @property
    def users(self) -> dict[str, User]:
        """All users by name. Raises OptionError for a file that cannot be read."""
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return {}
        seen = (status.st_mtime_ns, status.st_size)
        if seen != self._seen:
            self._users = _parse(self.path)
            self._seen = seen
        return self._users

    def check(self, user: User | None, password: str) -> User | None:
        """The user if the password is the user's, or None; takes as long for None."""
        right = is_password(password, user.password if user else self._nobody)
        return user if right else None


def user_of_credentials(credentials: Credentials) -> User:
    """The admin who knows the credentials with which the console asks brokers."""
    return User(credentials.access_key, Role.ADMIN, hash_secret(credentials.secret_key))


def set_user(path: Path, name: str, role: Role, password: str, *, reads_bodies: bool = True) -> bool:
    """Adds a user, or changes one; gives whether it is new. Raises OptionError, WeakPassword."""
    if not _NAME.fullmatch(name):
        raise OptionError(f"{name!r} is no user name: letters, digits and ._@-, 64 at most")
    users = _parse(path) if path.exists() else {}
    is_new = name not in users
    if is_new and len(users) >= MAX_USERS:
        raise OptionError(f"{path} has {MAX_USERS} users already")
    users[name] = User(name, role, hash_password(password), reads_bodies)
    write_whole(path, "".join(one.line for one in users.values()), mode=0o600)
    return is_new


def _parse(path: Path) -> dict[str, User]:
    users = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip():
            continue
        try:
            name, role, password = line.split(":")
            reads_bodies = not role.endswith(NO_BODIES)
            users[name] = User(name, parse_role(role.removesuffix(NO_BODIES)), password, reads_bodies)
        except ValueError:
            raise OptionError(f"{path}, line {number}: expected NAME:ROLE:HASH") from None
    return users
