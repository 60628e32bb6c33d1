"""Users and rules as administrators ask for them."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from orbitmq.broker.auth import handlers
from orbitmq.broker.auth.table import AuthTable
from orbitmq.handling.call import Call, Outcome, Wait
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.protocol.bodies.auth import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused, Malformed, Refused
from orbitmq.protocol.remoting.signing import Credentials
from orbitmq.protocol.requests.admin import GetBrokerConfig
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
from orbitmq.protocol.schema.declare import JsonReply, Request
from tests.kit.running_standalone import running
from tests.kit.world import NOW, World

HANDLERS = {
    AuthCreateUser: handlers.create_user,
    AuthUpdateUser: handlers.update_user,
    AuthDeleteUser: handlers.delete_user,
    AuthGetUser: handlers.get_user,
    AuthListUser: handlers.list_users,
    AuthCreateAcl: handlers.merge_acl,
    AuthUpdateAcl: handlers.merge_acl,
    AuthDeleteAcl: handlers.delete_acl,
    AuthGetAcl: handlers.get_acl,
    AuthListAcl: handlers.list_acls,
}
ROOT = Credentials("root", "root-secret")


class Office(World):
    """A broker without sockets that has the super user root; `ask` says who asks."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.auth.ensure_super_user(ROOT.access_key, ROOT.secret_key)

    def answer(self, request: Request[Any], who: str | None = None) -> Any:
        command = request.to_command()
        if who is not None:
            command.ext = {**(command.ext or {}), "AccessKey": who}
        tables = handlers.AuthTables(self.settings, self.auth, self.dirty_tables)
        decoded = type(request).from_command(command)
        result = HANDLERS[type(request)](tables, Call(decoded, command, self.peer()), NOW)
        while isinstance(result, Wait):
            result = result.then(Outcome(timed_out=False), NOW)
        kind = request.REPLY if type(result) is JsonReply else type(result)
        return kind.from_command(result.to_command(1))

    def refused(self, request: Request[Any], who: str | None = None) -> tuple[int, str]:
        with pytest.raises(Refused) as refused:
            self.answer(request, who)
        return int(refused.value.code), refused.value.remark


def rules(*entries: PolicyEntryInfo, kind: str | None = None, subject: str | None = None) -> AclInfo:
    return AclInfo(subject, [PolicyInfo(kind, list(entries))])


def entry(
    resource: str | None = "Topic:orders",
    actions: list[str] | None = None,
    decision: str | None = "Allow",
    ips: list[str] | None = None,
) -> PolicyEntryInfo:
    return PolicyEntryInfo(resource, actions or ["Pub"], ips, decision)


def with_ann(**settings: Any) -> Office:
    office = Office(**settings)
    office.answer(AuthCreateUser("ann", UserInfo(password="secret")))
    return office


# Users.


def test_a_new_user_is_normal_and_enabled() -> None:
    office = Office()
    # The header's name counts.
    office.answer(AuthCreateUser("ann", UserInfo("other", "secret")))
    user = office.auth.user("ann")
    assert user is not None
    assert (user.password, user.user_type, user.user_status) == ("secret", 2, 1)
    info = office.answer(AuthGetUser("ann")).body
    assert (info.username, info.user_type, info.user_status) == ("ann", "Normal", "enable")


def test_types_and_states_are_read_in_any_case() -> None:
    office = Office()
    office.answer(AuthCreateUser("ann", UserInfo(password="s", user_type="SUPER", user_status="Disable")))
    info = office.answer(AuthGetUser("ann")).body
    assert (info.user_type, info.user_status) == ("Super", "disable")


@pytest.mark.parametrize(
    ("request_", "code", "remark"),
    [
        (AuthCreateUser("", UserInfo(password="s")), 29, "The username is blank"),
        (AuthCreateUser(None, UserInfo(password="s")), 29, "The username is blank"),
        (AuthCreateUser(" ", UserInfo(password="s")), 16, "username can not be blank"),
        (AuthCreateUser("bob", UserInfo()), 16, "password can not be blank"),
        (AuthCreateUser("bob", None), 16, "password can not be blank"),
        (AuthCreateUser("ann", UserInfo(password="s")), 16, "The user is existed"),
        # It would be taken for a sealed one where secrets are stored in clear.
        (
            AuthCreateUser("bob", UserInfo(password="sealed-fernet:x")),
            16,
            "password can not begin with sealed-fernet:",
        ),
        (
            AuthUpdateUser("ann", UserInfo(password="sealed-fernet:x")),
            16,
            "password can not begin with sealed-fernet:",
        ),
        (AuthUpdateUser("", UserInfo()), 29, "The username is blank"),
        (AuthUpdateUser("bob", UserInfo()), 16, "The user is not exist"),
        (AuthDeleteUser(""), 16, "username can not be blank"),
        (AuthGetUser(" "), 29, "The username is blank"),
    ],
)
def test_what_is_wrong_with_a_user(request_: Request[Any], code: int, remark: str) -> None:
    assert with_ann().refused(request_) == (code, remark)


def test_an_update_changes_only_what_it_has() -> None:
    office = with_ann()
    office.answer(AuthUpdateUser("ann", UserInfo(user_status="disable")))
    office.answer(AuthUpdateUser("ann", UserInfo(password=" ", user_type="odd")))
    user = office.auth.user("ann")
    assert user is not None
    assert (user.password, user.user_type, user.user_status) == ("secret", 2, 2)
    office.answer(AuthUpdateUser("ann", UserInfo(password="new", user_type="super")))
    user = office.auth.user("ann")
    assert user is not None
    assert (user.password, user.user_type, user.user_status) == ("new", 1, 2)


def test_super_users_are_made_and_changed_by_super_users_only() -> None:
    office = with_ann(authentication_enabled=True)
    for kind, verb in ((AuthCreateUser, "create"), (AuthUpdateUser, "update")):
        request = kind("bob", UserInfo(password="s", user_type="Super"))
        assert office.refused(request, "ann") == (
            1,
            f"The super user can only be {verb} by super user",
        )
        assert office.refused(request)[0] == 1
    for request in (AuthUpdateUser("root", UserInfo(password="mine")), AuthDeleteUser("root")):
        assert office.refused(request, "ann") == (16, "The super user can only be update by super user")
    office.answer(AuthCreateUser("bob", UserInfo(password="s", user_type="Super")), "root")
    office.answer(AuthDeleteUser("root"), "bob")
    assert office.auth.user("root") is None


def test_whoever_says_to_be_somebody_has_to_exist() -> None:
    request = AuthCreateUser("bob", UserInfo(password="s", user_type="Super"))
    assert Office().refused(request, "nobody") == (16, "User:nobody is not found")


def test_deleting_a_user_takes_its_rules_along() -> None:
    office = with_ann()
    office.answer(AuthCreateAcl("User:ann", rules(entry())))
    office.answer(AuthDeleteUser("ann"))
    office.answer(AuthDeleteUser("ann"))
    assert office.answer(AuthGetUser("ann")).body is None
    office.answer(AuthCreateUser("ann", UserInfo(password="secret")))
    assert office.answer(AuthGetAcl("User:ann")).body is None


def test_users_are_listed_by_a_part_of_their_names() -> None:
    office = with_ann()

    def names(part: str | None) -> list[str]:
        body = office.answer(AuthListUser(part)).body
        return [] if body is None else [user.username for user in body.users]

    assert names(None) == names("") == names(" ") == ["ann", "root"]
    assert names("nn") == ["ann"]
    assert names("x") == []


def test_secrets_are_shown_to_super_users_who_signed_and_to_nobody_else() -> None:
    def shown(office: Office, who: str | None) -> tuple[str | None, str | None]:
        return (
            office.answer(AuthGetUser("ann"), who).body.password,
            office.answer(AuthListUser("ann"), who).body.users[0].password,
        )

    checked = with_ann(authentication_enabled=True)
    assert shown(checked, "root") == ("secret", "secret")
    assert shown(checked, "ann") == shown(checked, None) == (None, None)
    assert shown(with_ann(), "root") == (None, None)
    never = with_ann(authentication_enabled=True, auth_secrets_shown_to="nobody")
    assert shown(never, "root") == (None, None)


# Rules.


def test_rules_come_back_as_they_were_given() -> None:
    office = with_ann()
    given = rules(
        entry("topic:orders*", ["pub", "SUB", "odd"], "ALLOW", ["10.0.0.0/8", "::1"]),
        entry("*", ["List"], "deny"),
    )
    office.answer(AuthCreateAcl("User:ann", given))
    acl = office.answer(AuthGetAcl("User:ann")).body
    assert acl.subject == "User:ann"
    (policy,) = acl.policies
    assert policy.policy_type == "Custom"
    assert policy.entries == [
        PolicyEntryInfo("Topic:orders*", ["Pub", "Sub"], ["10.0.0.0/8", "::1"], "Allow"),
        PolicyEntryInfo("*", ["List"], None, "Deny"),
    ]


def test_create_and_update_replace_the_entry_of_the_same_resource_and_add_others() -> None:
    office = with_ann()
    office.answer(AuthCreateAcl("User:ann", rules(entry("Topic:a"), entry("Topic:b"))))
    office.answer(AuthUpdateAcl("User:ann", rules(entry("Topic:a", ["Sub"], "Deny"), entry("Topic:c"))))
    office.answer(AuthCreateAcl("User:ann", rules(entry("Topic:a", ["Get"]), kind="default")))
    policies = office.answer(AuthGetAcl("User:ann")).body.policies
    held = {
        (policy.policy_type, one.resource): (one.actions, one.decision)
        for policy in policies
        for one in policy.entries
    }
    assert held == {
        ("Custom", "Topic:a"): (["Sub"], "Deny"),
        ("Custom", "Topic:b"): (["Pub"], "Allow"),
        ("Custom", "Topic:c"): (["Pub"], "Allow"),
        ("Default", "Topic:a"): (["Get"], "Allow"),
    }


def test_the_subject_of_the_body_counts_if_there_is_one() -> None:
    office = with_ann()
    office.answer(AuthCreateAcl("User:root", rules(entry(), subject="User:ann")))
    assert office.auth.acl("ann") is not None
    assert office.auth.acl("root") is None


@pytest.mark.parametrize(
    ("subject", "body", "code", "remark"),
    [
        ("User:ann", None, 1, "The body of acl is null"),
        ("User:ann", AclInfo(), 1, "The body of acl is null"),
        ("User:ann", rules(), 16, "The policies is empty."),
        ("User:bob", rules(entry()), 16, "The subject of User:bob is not exist."),
        ("ann", rules(entry()), 16, "The subject is null."),
        ("User:", rules(entry()), 16, "The subject is null."),
        ("User:ann", rules(entry("Queue:x")), 16, "The resource is null."),
        ("User:ann", rules(entry(None)), 16, "The resource is null."),
        ("User:ann", rules(entry(actions=["odd"])), 16, "The actions is empty."),
        ("User:ann", rules(entry(actions=["Pub", "Any"])), 16, "The actions can not be Any."),
        ("User:ann", rules(entry(decision="perhaps")), 16, "The decision is null or illegal."),
        ("User:ann", rules(entry(decision=None)), 16, "The decision is null or illegal."),
        ("User:ann", rules(entry(ips=[" "])), 16, "The source ip is empty."),
        ("User:ann", rules(entry(ips=["10.0.0.300"])), 16, "The source ip is invalid."),
        ("User:ann", rules(entry(ips=["10.0.0.0/33"])), 16, "The source ip is invalid."),
        ("User:ann", rules(entry(ips=["host"])), 16, "The source ip is invalid."),
    ],
)
def test_what_is_wrong_with_rules(subject: str, body: AclInfo | None, code: int, remark: str) -> None:
    office = with_ann()
    for request in (AuthCreateAcl(subject, body), AuthUpdateAcl(subject, body)):
        assert office.refused(request) == (code, remark)
    assert office.auth.acl("ann") is None


def test_rules_are_deleted_one_by_one_or_all() -> None:
    office = with_ann()
    office.answer(AuthCreateAcl("User:ann", rules(entry("Topic:a"), entry("Topic:b"), entry("Topic:c"))))
    office.answer(AuthCreateAcl("User:ann", rules(entry("Topic:a"), kind="Default")))

    def held() -> list[str]:
        acl = office.answer(AuthGetAcl("User:ann")).body
        return [] if acl is None else [one.resource for policy in acl.policies for one in policy.entries]

    office.answer(AuthDeleteAcl("User:ann", None, "Topic:a"))
    assert held() == ["Topic:b", "Topic:c", "Topic:a"]
    office.answer(AuthDeleteAcl("User:ann", "Default", "Topic:a"))
    office.answer(AuthDeleteAcl("User:ann", None, "Topic:nothing"))
    assert held() == ["Topic:b", "Topic:c"]
    # Text that names no resource must not remove everything.
    assert office.refused(AuthDeleteAcl("User:ann", None, "Topik:b")) == (16, "The resource is null.")
    office.answer(AuthDeleteAcl("User:ann", None, None))
    assert held() == []
    assert office.refused(AuthDeleteAcl("User:ann", None, None)) == (16, "The acl is not exist.")
    for request in (AuthDeleteAcl("User:bob", None, None), AuthGetAcl("User:bob")):
        assert office.refused(request) == (16, "The subject is not exist.")
    for request in (AuthDeleteAcl("bob", None, None), AuthGetAcl("")):
        assert office.refused(request) == (16, "The subject is null.")


def test_rules_are_listed_by_parts_of_subject_and_resource() -> None:
    office = with_ann()
    office.answer(AuthCreateAcl("User:ann", rules(entry("Topic:a"), entry("Group:b"))))
    office.answer(AuthCreateAcl("User:root", rules(entry("Topic:c"))))

    def found(subject: str | None = None, resource: str | None = None) -> dict[str, list[str]]:
        body = office.answer(AuthListAcl(subject, resource)).body
        return {
            acl.subject: [one.resource for policy in acl.policies for one in policy.entries]
            for acl in (body.acls if body is not None else [])
        }

    assert found() == {"User:ann": ["Topic:a", "Group:b"], "User:root": ["Topic:c"]}
    assert found("ann", "") == {"User:ann": ["Topic:a", "Group:b"]}
    assert found(None, "Topic:") == {"User:ann": ["Topic:a"], "User:root": ["Topic:c"]}
    assert found("User:", "Group") == {"User:ann": ["Group:b"]}
    assert found("x") == found(None, "x") == {}


# The file.


def test_the_file_holds_everything() -> None:
    office = with_ann()
    office.answer(AuthCreateAcl("User:ann", rules(entry("Topic:a*", ["Pub"], "Deny", ["10.0.0.1"]))))
    text = office.auth.snapshot()()
    again = AuthTable(DirtyTables())
    again.load_text(text)
    assert again.snapshot()() == text
    assert again.users() == office.auth.users()
    assert again.acl("ann") == office.auth.acl("ann")
    # As Apache stores them.
    assert json.loads(text)["acls"]["User:ann"]["policies"][0]["entries"][0]["resource"] == {
        "resourceName": "a",
        "resourcePattern": 3,
        "resourceType": 4,
    }


@pytest.mark.parametrize(
    "text",
    [
        '{"users":{"ann":{"username":"bob","password":"s","userType":1,"userStatus":1}}}',
        '{"users":{"ann":{"username":"ann","userType":1,"userStatus":1}}}',
        '{"users":{"ann":{"username":"ann","password":"s","userType":3,"userStatus":1}}}',
        '{"users":{"ann":{"username":"ann","password":"s","userType":1}}}',
        '{"acls":{"User:ann":{"policies":[]}}}',
        '{"users":{"ann":{"username":"ann","password":"s","userType":1,"userStatus":1}},"acls":{"User:ann":'
        '{"policies":[{"policyType":1,"entries":[{"resource":{"resourceType":9,"resourcePattern":1},'
        '"actions":[1],"decision":1}]}]}}}',
        '{"users":{"ann":{"username":"ann","password":"s","userType":1,"userStatus":1}},"acls":{"User:ann":'
        '{"policies":[{"policyType":1,"entries":[{"resource":{"resourceType":4,"resourcePattern":1},'
        '"actions":[77],"decision":1}]}]}}}',
    ],
)
def test_a_file_that_cannot_be_trusted_is_refused_whole(text: str) -> None:
    office = with_ann()
    with pytest.raises(Malformed):
        office.auth.load_text(text)
    assert office.auth.user("ann") is not None


async def test_users_and_rules_outlive_the_broker_and_are_for_its_owner_alone(tmp_path: Path) -> None:
    root = {"initAuthenticationUser": '{"username":"root","password":"root-secret"}'}
    folder = tmp_path / "elsewhere"
    options = {"authenticationEnabled": "true", "authorizationEnabled": "true", "authConfigPath": folder}
    async with running(tmp_path / "data", credentials=ROOT, **options, **root) as here:
        await here.ask(AuthCreateUser("ann", UserInfo(password="ann-secret")))
        await here.ask(AuthCreateAcl("User:ann", rules(entry("Cluster:DefaultCluster", ["Get"]))))
        # Acknowledged is written.
        saved = json.loads((folder / "auth.json").read_text())
        assert saved["acls"]["User:ann"]
    for path in folder.iterdir():
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600, path
    again = {**root, "initAuthenticationUser": root["initAuthenticationUser"].replace("t-s", "t-other-s")}
    ann = Credentials("ann", "ann-secret")
    async with running(tmp_path / "data", credentials=ann, **options, **again) as here:
        assert b"******" in (await here.ask(GetBrokerConfig())).body
        assert b"secret" not in (await here.ask(GetBrokerConfig())).body
        with pytest.raises(BrokerRefused) as refused:
            await here.ask(AuthCreateUser("bob", UserInfo(password="x")))
        assert refused.value.code == ResponseCode.NO_PERMISSION
        # The first user is there already: its secret stays what it is.
        assert here.broker.broker.auth.user("root").password == "root-secret"


async def test_a_broker_without_users_has_no_file_of_users(tmp_path: Path) -> None:
    async with running(tmp_path):
        pass
    assert not (tmp_path / "config" / "auth.json").exists()


async def test_a_broker_signs_what_it_asks_of_name_servers(tmp_path: Path) -> None:
    own = '{"accessKey":"inner","secretKey":"inner-secret"}'
    async with running(
        tmp_path, authenticationEnabled="true", innerClientAuthenticationCredentials=own
    ) as here:
        table = here.broker.broker.auth
        assert table.is_super("inner")
        connection = await here.broker._registrar._pool.connection(here.server.namesrv.address)
        assert connection.credentials == Credentials("inner", "inner-secret")
        assert (await here.refusal(GetBrokerConfig())).code == ResponseCode.NO_PERMISSION
