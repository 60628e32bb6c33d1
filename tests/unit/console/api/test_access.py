from collections.abc import Iterator

import httpx
import pytest

from orbitmq.access import Access
from orbitmq.protocol.remoting.signing import Credentials
from orbitmq.testing import LocalBroker
from tests.kit.running_console import RunningConsole

CHECKED = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": '{"username":"root","password":"root-secret"}',
}
ACCESS = "/api/clusters/bank/access"


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a console over a broker with access control."""
    folder = tmp_path_factory.mktemp("bank")
    access = Access(Credentials("root", "root-secret"))
    with (
        LocalBroker(**CHECKED) as broker,
        RunningConsole(folder, access=access, bank=broker.namesrv) as running,
    ):
        yield running.client()


def test_a_user_lives_on_all_brokers_and_its_password_stands_nowhere(bank: httpx.Client) -> None:
    made = bank.post(f"{ACCESS}/users", json={"name": "ann", "password": "hush hush"})
    assert len(made.json()["brokers"]) == 1
    again = bank.post(f"{ACCESS}/users", json={"name": "ann", "password": "hush hush"})
    assert again.status_code == 403
    assert "existed" in again.json()["title"]
    changed = bank.patch(f"{ACCESS}/users/ann", json={"password": "hush again", "enabled": False})
    assert changed.status_code == 200
    state = bank.get(ACCESS).json()
    assert [(one["name"], one["type"], one["status"]) for one in state["users"]] == [
        ("ann", "Normal", "disable"),
        ("root", "Super", "enable"),
    ]
    assert [(one["authenticates"], one["authorizes"]) for one in state["brokers"]] == [(True, True)]
    audit = bank.get("/api/audit").text
    assert '"newPassword":true' in audit
    assert "hush" not in audit + bank.get(ACCESS).text
    assert bank.patch(f"{ACCESS}/users/ann", json={}).status_code == 422
    assert bank.patch(f"{ACCESS}/users/nobody", json={"enabled": True}).json()["code"] == "NO_USER"
    erase = bank.request("DELETE", f"{ACCESS}/users/ann", json={"confirm": "an"})
    assert erase.json()["code"] == "NOT_CONFIRMED"
    assert bank.request("DELETE", f"{ACCESS}/users/ann", json={"confirm": "ann"}).status_code == 200
    assert [one["name"] for one in bank.get(ACCESS).json()["users"]] == ["root"]


def test_a_rule_is_made_replaced_and_deleted(bank: httpx.Client) -> None:
    bank.post(f"{ACCESS}/users", json={"name": "bob", "password": "secret of bob"})
    rule = {"user": "bob", "resource": "Topic:orders*", "actions": ["Pub"], "sourceIps": ["10.0.0.0/8"]}
    assert bank.post(f"{ACCESS}/rules", json=rule).status_code == 200
    assert (
        bank.post(f"{ACCESS}/rules", json={**rule, "actions": ["Sub"], "decision": "Deny"}).status_code == 200
    )
    [listed] = bank.get(ACCESS).json()["rules"]
    assert {name: listed[name] for name in ("user", "resource", "actions", "decision", "sourceIps")} == {
        **rule,
        "actions": ["Sub"],
        "decision": "Deny",
    }
    assert bank.post(f"{ACCESS}/rules", json={**rule, "actions": []}).json()["field"] == "actions"
    gone = bank.request("DELETE", f"{ACCESS}/rules", json={"user": "bob", "resource": "Topic:orders*"})
    assert gone.status_code == 200
    assert bank.get(ACCESS).json()["rules"] == []


def test_a_decision_is_explained_over_http(bank: httpx.Client) -> None:
    path = f"{ACCESS}/explain?user=root&resource=Topic:orders&action=Pub"
    [broker] = bank.get(path).json()["brokers"]
    assert (broker["allowed"], broker["cause"]) == (True, "SUPER_USER")
    for wrong in ("action=Fly", "resource=orders", "source=nowhere"):
        name = wrong.partition("=")[0]
        asked = {"user": "root", "resource": "Topic:orders", "action": "Pub", name: wrong.partition("=")[2]}
        assert bank.get(f"{ACCESS}/explain", params=asked).status_code == 422
