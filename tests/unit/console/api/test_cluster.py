import httpx
import pytest

from orbitmq.console.api.cluster import HIDDEN
from orbitmq.testing import LocalBroker

CLUSTER = "/api/clusters/here"


def test_servers_are_told_with_what_they_know(api: httpx.Client, console_broker: LocalBroker) -> None:
    state = api.get(f"{CLUSTER}/servers").json()
    [server] = state["nameServers"]
    assert (server["address"], server["brokers"], server["drained"]) == (console_broker.namesrv, 1, [])
    assert [(one["name"], one["state"]) for one in state["brokers"]] == [("broker-a", "active")]
    assert (state["controllers"], state["elections"], state["errors"]) == ([], [], [])


def test_a_name_server_that_is_gone_is_told_with_its_error(api: httpx.Client) -> None:
    [server] = api.get("/api/clusters/gone/servers").json()["nameServers"]
    assert server["error"]
    assert server["brokers"] is None


def test_a_broker_is_drained_after_its_name_and_put_back(api: httpx.Client) -> None:
    drain = f"{CLUSTER}/brokers/broker-a/drain"
    assert api.post(drain, json={"confirm": "broker-b"}).json()["code"] == "NOT_CONFIRMED"
    assert api.post(drain, json={"confirm": "broker-a"}).json()["topics"] > 0
    try:
        assert api.get(f"{CLUSTER}/servers").json()["nameServers"][0]["drained"] == ["broker-a"]
    finally:
        assert api.post(f"{CLUSTER}/brokers/broker-a/undrain", json={}).json()["topics"] > 0
    assert api.get(f"{CLUSTER}/servers").json()["nameServers"][0]["drained"] == []
    [back, drained, *_] = api.get("/api/audit").json()["entries"]
    assert (back["action"], back["after"]) == ("undrain_broker", {"writable": True})
    assert (drained["action"], drained["target"]) == ("drain_broker", "here/broker-a")
    assert api.post(f"{CLUSTER}/brokers/nobody/undrain", json={}).json()["code"] == "NO_BROKER"


def test_options_come_with_their_meaning_and_secrets_stay_hidden(api: httpx.Client) -> None:
    table = api.get(f"{CLUSTER}/config").json()
    options = {one["name"]: one for one in table["options"]}
    flush = options["flushDiskType"]
    assert flush["values"] == ["ASYNC_FLUSH"]
    assert flush["doc"]
    assert "SYNC_FLUSH" in flush["choices"]
    assert not any(one["differs"] for one in table["options"])
    for one in table["options"]:
        if one["secret"]:
            assert set(one["values"]) <= {HIDDEN, "", None}


def test_an_option_is_set_with_what_it_was_in_the_audit_log(api: httpx.Client) -> None:
    name = "transactionCheckInterval"
    config = api.get(f"{CLUSTER}/config").json()
    [before] = next(one["values"] for one in config["options"] if one["name"] == name)
    [address] = api.put(f"{CLUSTER}/config", json={"name": name, "value": "45000"}).json()["brokers"]
    entry = api.get("/api/audit").json()["entries"][0]
    assert (entry["before"], entry["after"]) == ({address: before}, {name: "45000", "brokers": [address]})
    api.put(f"{CLUSTER}/config", json={"name": name, "value": before, "broker": "broker-a"})


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("noSuchOption", "1", 422),
        ("transactionCheckInterval", "many", 422),
        ("initAuthenticationUser", "{}", 422),
    ],
)
def test_options_that_make_no_sense_are_refused(
    api: httpx.Client, name: str, value: str, status: int
) -> None:
    answer = api.put(f"{CLUSTER}/config", json={"name": name, "value": value})
    assert answer.status_code == status, answer.text
