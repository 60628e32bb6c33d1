"""The users of this broker and their rules, one table so that both change at once.

It lives in `config/auth.json`, which only its owner may read, with secrets sealed. Entries have the form in
which Apache stores them in RocksDB, which is not read.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from orbitmq.broker.auth.encryption import SEALED, Sealing
from orbitmq.broker.auth.policies import PolicyType, Rules, UserStatus, UserType, resource_key
from orbitmq.broker.metadata.snapshots import Snapshot
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.protocol.bodies.auth import Acl, Policy, PolicyEntry, Resource, User
from orbitmq.protocol.errors import Malformed, MalformedJson
from orbitmq.protocol.schema.json_body import JsonBody, require_member

USER_PREFIX = "User:"


@dataclass(slots=True)
class AuthFile(JsonBody):
    """The content of `auth.json`."""

    users: dict[str, User] = field(default_factory=dict)
    acls: dict[str, Acl] = field(default_factory=dict)
    """By subject, `User:name`."""


def may_hold_clear_secrets(text: str) -> bool:
    """True if a file's content has secrets that are not sealed; unknown, if it cannot be read."""
    try:
        users = AuthFile.from_json(text).users
    except Malformed:
        return bool(text.strip(" \t\r\n\x00"))
    return not all((user.password or "").startswith(SEALED) for user in users.values())


class AuthTable:
    """Users by name, rules by user name. Everything handed out is a copy or must not be changed."""

    FILE = "auth.json"
    NAME = "auth"

    def __init__(self, dirty_tables: DirtyTables) -> None:
        self._users: dict[str, User] = {}
        self._acls: dict[str, Acl] = {}
        self._rules: dict[str, Rules] = {}
        self._dirty_tables = dirty_tables
        self.sealing: Sealing | None = None
        """The key by which secrets are sealed in the file; without it they are there as they are."""
        self.changes = 0
        """Number of changes; earlier decisions may be outdated after each."""

    # Users.

    def user(self, name: str) -> User | None:
        return self._users.get(name)

    def users(self, part: str = "") -> list[User]:
        """The users whose names hold `part`, in the order of their names."""
        return [self._users[name] for name in sorted(self._users) if part in name]

    @property
    def has_users(self) -> bool:
        """True if there is any user."""
        return bool(self._users)

    def is_super(self, name: str) -> bool:
        """True if there is a super user of this name."""
        user = self._users.get(name)
        return user is not None and user.user_type == UserType.SUPER

    def put_user(self, user: User) -> None:
        self._users[user.username or ""] = user
        self._note()

    def delete_user(self, name: str) -> None:
        if self._users.pop(name, None) is not None:
            self._acls.pop(name, None)
            self._rules.pop(name, None)
            self._note()

    def ensure_super_user(self, name: str, secret: str) -> bool:
        """Makes a super user unless a user of this name is there already. True if it made one."""
        if name in self._users:
            return False
        self.put_user(User(name, secret, user_type=UserType.SUPER, user_status=UserStatus.ENABLE))
        return True

    def replace_all(self, users: dict[str, User], policies: dict[str, list[Policy]]) -> None:
        """Replaces users and rules by those of another broker, all at once. Notes nothing where they are the
        same. Rules of no user are left out.
        """
        acls = {name: Acl(User(name), rules) for name, rules in policies.items() if name in users and rules}
        if users == self._users and acls == self._acls:
            return
        self._users, self._acls, self._rules = users, acls, {}
        self._note()

    # Rules.

    def rules(self, name: str) -> Rules:
        """The rules of a user, ready to be asked."""
        found = self._rules.get(name)
        if found is None:
            found = self._rules[name] = Rules(self._acls.get(name))
        return found

    def acl(self, name: str) -> Acl | None:
        """The rules of a user as they are stored, or None."""
        return self._acls.get(name)

    def acls(self, subject_part: str = "", resource_part: str = "") -> list[Acl]:
        """The rules of subjects that hold `subject_part`, as far as their resources hold `resource_part`."""
        found = []
        for name in sorted(self._acls):
            if subject_part not in USER_PREFIX + name:
                continue
            acl = self._acls[name]
            policies = [
                replace(policy, entries=entries)
                for policy in acl.policies or ()
                if (
                    entries := [
                        entry
                        for entry in policy.entries or ()
                        if resource_part in resource_key(entry.resource)
                    ]
                )
            ]
            if policies:
                found.append(replace(acl, policies=policies))
        return found

    def merge_acl(self, name: str, policies: list[Policy]) -> None:
        """Adds entries to a user's rules; one about the same resource in the same policy is replaced."""
        merged = {
            policy.policy_type: {resource_key(entry.resource): entry for entry in policy.entries or ()}
            for policy in (self._acls[name].policies if name in self._acls else None) or ()
        }
        for policy in policies:
            entries = merged.setdefault(policy.policy_type, {})
            entries |= {resource_key(entry.resource): entry for entry in policy.entries or ()}
        self._put_acl(name, merged)

    def delete_acl(self, name: str, kind: PolicyType, resource: Resource | None) -> None:
        """Removes a user's entry about one resource, or all its rules."""
        merged: dict[int | None, dict[str, PolicyEntry]] = {}
        if resource is not None and name in self._acls:
            for policy in self._acls[name].policies or ():
                entries = {resource_key(entry.resource): entry for entry in policy.entries or ()}
                if policy.policy_type == kind:
                    entries.pop(resource_key(resource), None)
                merged[policy.policy_type] = entries
        self._put_acl(name, merged)

    def _put_acl(self, name: str, merged: dict[int | None, dict[str, PolicyEntry]]) -> None:
        policies = [Policy(kind, list(entries.values())) for kind, entries in merged.items() if entries]
        if policies:
            self._acls[name] = Acl(User(name), policies)
        else:
            self._acls.pop(name, None)
        self._rules.pop(name, None)
        self._note()

    def _note(self) -> None:
        self.changes += 1
        self._dirty_tables.mark(self.NAME)

    # The file.

    def snapshot(self) -> Snapshot:
        """The content of `auth.json`."""
        users, acls, sealing = dict(self._users), dict(self._acls), self.sealing

        def stored(user: User) -> User:
            return user if sealing is None else replace(user, password=sealing.seal(user.password or ""))

        return lambda: AuthFile(
            {name: stored(user) for name, user in users.items()},
            {USER_PREFIX + name: acl for name, acl in acls.items()},
        ).to_pretty_json()

    def load_text(self, text: str) -> None:
        """Takes over the content of `auth.json`. Raises Malformed where any of it cannot be trusted, and
        Unsealable where all of it can but for secrets that do not open.
        """
        require_member(text, "users")
        content = AuthFile.from_json(text)
        users, acls, rules = {}, {}, {}
        for name, user in content.users.items():
            if user.username != name or not user.password:
                raise MalformedJson(f"user {name!r} has another name or no secret")
            if user.user_type not in list(UserType) or user.user_status not in list(UserStatus):
                raise MalformedJson(f"type or status of user {name!r} are none that there are")
            users[name] = user
        for subject, acl in content.acls.items():
            name = subject.removeprefix(USER_PREFIX)
            if not subject.startswith(USER_PREFIX) or name not in users:
                raise MalformedJson(f"rules of {subject!r}, which is no user")
            try:
                rules[name] = Rules(acl)
            except ValueError as error:
                raise Malformed(f"a rule of {subject!r} cannot be read: {error}") from None
            acls[name] = replace(acl, subject=User(name))
        if self.sealing is not None:
            users = {
                name: replace(user, password=self.sealing.open(user.password or ""))
                for name, user in users.items()
            }
        self._users, self._acls, self._rules = users, acls, rules
        self.changes += 1
