"""Administration of users and their rules."""

from __future__ import annotations

from dataclasses import dataclass, replace

from orbitmq.broker.auth.encryption import SEALED
from orbitmq.broker.auth.options import AuthSettings
from orbitmq.broker.auth.policies import (
    Action,
    BadResource,
    Decision,
    PolicyType,
    UserStatus,
    UserType,
    by_name,
    parse_network,
    parse_resource,
    resource_key,
    shown,
)
from orbitmq.broker.auth.table import USER_PREFIX, AuthTable
from orbitmq.broker.registry import handlers
from orbitmq.handling.call import Call, Result
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.handling.saving import after_saving
from orbitmq.protocol.bodies.auth import (
    Acl,
    AclInfo,
    AclInfoList,
    Environment,
    Policy,
    PolicyEntry,
    PolicyEntryInfo,
    PolicyInfo,
    User,
    UserInfo,
    UserInfoList,
)
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.remoting.signing import ACCESS_KEY
from orbitmq.protocol.requests.auth import (
    AuthCreateAcl,
    AuthCreateUser,
    AuthDeleteAcl,
    AuthDeleteUser,
    AuthGetAcl,
    AuthGetUser,
    AuthListAcl,
    AuthListUser,
    AuthUpdateAcl,
    AuthUpdateUser,
)
from orbitmq.protocol.schema.declare import JsonReply, Reply, Void

MAX_NAME_CHARACTERS = 255
"""A user's name is part of every request it signs; Apache has no limit."""


@dataclass(slots=True)
class AuthTables:
    """Users, rules, and what has to be written."""

    settings: AuthSettings
    auth: AuthTable
    dirty_tables: DirtyTables


def _no_permission(remark: str) -> Refused:
    return Refused(ResponseCode.NO_PERMISSION, remark)


# Users.


@handlers(AuthCreateUser)
def create_user(tables: AuthTables, call: Call[AuthCreateUser], now: int) -> Result:
    """Makes a user: Normal and enabled unless the body says otherwise."""
    name = _username(call.request.username)
    body = call.request.body or UserInfo()
    kind = by_name(UserType, body.user_type)
    if kind is UserType.SUPER and not _may_make_super(tables, call.command):
        raise Refused(ResponseCode.SYSTEM_ERROR, "The super user can only be create by super user")
    if not name.strip():
        raise _no_permission("username can not be blank")
    if len(name) > MAX_NAME_CHARACTERS:
        raise _no_permission(f"username can not have more than {MAX_NAME_CHARACTERS} characters")
    if not (body.password or "").strip():
        raise _no_permission("password can not be blank")
    _refuse_sealed(body)
    if tables.auth.user(name) is not None:
        raise _no_permission("The user is existed")
    status = by_name(UserStatus, body.user_status) or UserStatus.ENABLE
    tables.auth.put_user(User(name, body.password, 1, kind or UserType.NORMAL, status))
    return _saved(tables, now)


@handlers(AuthUpdateUser)
def update_user(tables: AuthTables, call: Call[AuthUpdateUser], now: int) -> Result:
    """Changes what the body has of a user."""
    name = _username(call.request.username)
    body = call.request.body or UserInfo()
    kind = by_name(UserType, body.user_type)
    may = _may_make_super(tables, call.command)
    if kind is UserType.SUPER and not may:
        raise Refused(ResponseCode.SYSTEM_ERROR, "The super user can only be update by super user")
    old = tables.auth.user(name)
    if old is None:
        raise _no_permission("The user is not exist")
    if old.user_type == UserType.SUPER and not may:
        raise _no_permission("The super user can only be update by super user")
    _refuse_sealed(body)
    changed = replace(
        old,
        password=body.password if (body.password or "").strip() else old.password,
        user_type=kind or old.user_type,
        user_status=by_name(UserStatus, body.user_status) or old.user_status,
    )
    tables.auth.put_user(changed)
    return _saved(tables, now)


@handlers(AuthDeleteUser)
def delete_user(tables: AuthTables, call: Call[AuthDeleteUser], now: int) -> Result:
    """Removes a user and its rules; SUCCESS as well where there was none."""
    name = call.request.username or ""
    if not name.strip():
        raise _no_permission("username can not be blank")
    old = tables.auth.user(name)
    if old is not None and old.user_type == UserType.SUPER and not _may_make_super(tables, call.command):
        raise _no_permission("The super user can only be update by super user")
    tables.auth.delete_user(name)
    return _saved(tables, now)


@handlers(AuthGetUser)
def get_user(tables: AuthTables, call: Call[AuthGetUser], now: int) -> Reply:
    """One user; no body if there is none."""
    if not (call.request.username or "").strip():
        raise Refused(ResponseCode.INVALID_PARAMETER, "The username is blank")
    user = tables.auth.user(call.request.username or "")
    return JsonReply(body=None if user is None else _user_info(user, _shows_secrets(tables, call.command)))


@handlers(AuthListUser)
def list_users(tables: AuthTables, call: Call[AuthListUser], now: int) -> Reply:
    """Users by a part of their names; no body if there are none."""
    shows = _shows_secrets(tables, call.command)
    users = [_user_info(user, shows) for user in tables.auth.users(_filter(call.request.filter))]
    return JsonReply(UserInfoList(users) if users else None)


def _username(name: str | None) -> str:
    if not name:
        raise Refused(ResponseCode.INVALID_PARAMETER, "The username is blank")
    return name


def _refuse_sealed(body: UserInfo) -> None:
    """Stored in clear such a secret would be taken for a sealed one."""
    if (body.password or "").startswith(SEALED):
        raise _no_permission(f"password can not begin with {SEALED}")


def _filter(text: str | None) -> str:
    return text if text is not None and text.strip() else ""


def _saved(tables: AuthTables, now: int) -> Result:
    return after_saving(tables.dirty_tables, Void(), now, tables.auth.NAME)


def _may_make_super(tables: AuthTables, command: Command) -> bool:
    """True if the sender is a super user; without authentication everybody is."""
    name = (command.ext or {}).get(ACCESS_KEY)
    if not name:
        return not tables.settings.authentication_enabled
    if tables.auth.user(name) is None:
        raise _no_permission(f"User:{name} is not found")
    return tables.auth.is_super(name)


def _shows_secrets(tables: AuthTables, command: Command) -> bool:
    """True if the answer may hold secrets: to a super user whose signature was checked."""
    settings = tables.settings
    if settings.auth_secrets_shown_to != "superUsers" or not settings.authentication_enabled:
        return False
    return tables.auth.is_super((command.ext or {}).get(ACCESS_KEY, ""))


def _user_info(user: User, with_secret: bool) -> UserInfo:
    return UserInfo(
        user.username,
        user.password if with_secret else None,
        shown(UserType(user.user_type or UserType.NORMAL)),
        shown(UserStatus(user.user_status or UserStatus.ENABLE)),
    )


# Rules.


@handlers(AuthCreateAcl, AuthUpdateAcl)
def merge_acl(tables: AuthTables, call: Call[AuthCreateAcl | AuthUpdateAcl], now: int) -> Result:
    """Adds rules to a user; one about the same resource in the same policy is replaced."""
    body = call.request.body
    if body is None or not body.policies:
        raise Refused(ResponseCode.SYSTEM_ERROR, "The body of acl is null")
    subject = body.subject or call.request.subject or ""
    policies = [_policy(policy) for policy in body.policies if policy.entries]
    if not policies:
        raise _no_permission("The policies is empty.")
    name = _subject_name(subject)
    if name is None:
        raise _no_permission("The subject is null.")
    if tables.auth.user(name) is None:
        raise _no_permission(f"The subject of {USER_PREFIX}{name} is not exist.")
    tables.auth.merge_acl(name, policies)
    return _saved(tables, now)


@handlers(AuthDeleteAcl)
def delete_acl(tables: AuthTables, call: Call[AuthDeleteAcl], now: int) -> Result:
    """Removes the rule about a resource, or all rules of a user."""
    request = call.request
    name = _existing(tables, request.subject)
    if tables.auth.acl(name) is None:
        raise _no_permission("The acl is not exist.")
    kind = by_name(PolicyType, request.policy_type) or PolicyType.CUSTOM
    resource = None
    if (request.resource or "").strip():
        try:
            resource = parse_resource(request.resource)
        except BadResource as error:
            # Apache takes it for none and removes everything.
            raise _no_permission(str(error)) from None
    tables.auth.delete_acl(name, kind, resource)
    return _saved(tables, now)


@handlers(AuthGetAcl)
def get_acl(tables: AuthTables, call: Call[AuthGetAcl], now: int) -> Reply:
    """The rules of one user; no body if it has none."""
    acl = tables.auth.acl(_existing(tables, call.request.subject))
    return JsonReply(None if acl is None else _acl_info(acl))


@handlers(AuthListAcl)
def list_acls(tables: AuthTables, call: Call[AuthListAcl], now: int) -> Reply:
    """Rules by parts of their subjects and resources; no body if there are none."""
    request = call.request
    found = tables.auth.acls(_filter(request.subject_filter), _filter(request.resource_filter))
    return JsonReply(AclInfoList(list(map(_acl_info, found))) if found else None)


def users_of(infos: list[UserInfo], known: AuthTable) -> tuple[dict[str, User], list[str]]:
    """Users as another broker lists them, and the names of those whose secrets it does not show and that are
    not known here. A known user whose secret is not shown keeps the present one.
    """
    users: dict[str, User] = {}
    unusable: list[str] = []
    for info in infos:
        name = info.username or ""
        old = known.user(name)
        secret = info.password or (old.password if old is not None else None)
        if not name or not secret or secret.startswith(SEALED):
            unusable.append(name)
            continue
        kind = by_name(UserType, info.user_type) or UserType.NORMAL
        # A user whose status is not understood may not log in.
        status = by_name(UserStatus, info.user_status) or UserStatus.DISABLE
        users[name] = User(name, secret, 1, kind, status)
    return users, unusable


def policies_of(infos: list[AclInfo]) -> dict[str, list[Policy]]:
    """Rules by user, as another broker lists them. Raises Refused for a rule that cannot be read: without it
    the others might allow what it denies.
    """
    rules: dict[str, list[Policy]] = {}
    for info in infos:
        name = _subject_name(info.subject)
        if name is not None:
            rules[name] = [_policy(policy) for policy in info.policies or () if policy.entries]
    return rules


def _subject_name(subject: str | None) -> str | None:
    """The user that `User:name` names."""
    kind, _, name = (subject or "").partition(":")
    return name if kind.lower() == "user" and name else None


def _existing(tables: AuthTables, subject: str | None) -> str:
    name = _subject_name(subject)
    if name is None:
        raise _no_permission("The subject is null.")
    if tables.auth.user(name) is None:
        raise _no_permission("The subject is not exist.")
    return name


def _policy(info: PolicyInfo) -> Policy:
    kind = by_name(PolicyType, info.policy_type) or PolicyType.CUSTOM
    return Policy(kind, [_entry(entry) for entry in info.entries or ()])


def _entry(info: PolicyEntryInfo) -> PolicyEntry:
    try:
        resource = parse_resource(info.resource)
    except BadResource as error:
        raise _no_permission(str(error)) from None
    known = (by_name(Action, name) for name in info.actions or ())
    actions = list(dict.fromkeys(action for action in known if action is not None))
    if not actions:
        raise _no_permission("The actions is empty.")
    if Action.ANY in actions:
        raise _no_permission("The actions can not be Any.")
    for source_ip in info.source_ips or ():
        if not source_ip.strip():
            raise _no_permission("The source ip is empty.")
        try:
            parse_network(source_ip)
        except ValueError:
            raise _no_permission("The source ip is invalid.") from None
    decision = by_name(Decision, info.decision)
    if decision is None:
        raise _no_permission("The decision is null or illegal.")
    environment = Environment(list(info.source_ips)) if info.source_ips else None
    return PolicyEntry(resource, list(map(int, actions)), environment, decision)


def _acl_info(acl: Acl) -> AclInfo:
    return AclInfo(
        f"{USER_PREFIX}{acl.subject.username if acl.subject is not None else ''}",
        [
            PolicyInfo(
                shown(PolicyType(policy.policy_type or PolicyType.CUSTOM)),
                [_entry_info(entry) for entry in policy.entries or ()],
            )
            for policy in acl.policies or ()
        ],
    )


def _entry_info(entry: PolicyEntry) -> PolicyEntryInfo:
    return PolicyEntryInfo(
        resource_key(entry.resource),
        [shown(Action(action)) for action in entry.actions or ()],
        entry.environment.source_ips if entry.environment is not None else None,
        shown(Decision(entry.decision or Decision.DENY)),
    )
