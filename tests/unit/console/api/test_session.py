import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from orbitmq.access import Access
from orbitmq.console.security.login_limit import FREE_FAILURES
from orbitmq.console.security.roles import Role
from orbitmq.console.security.users import set_user
from orbitmq.protocol.remoting.signing import Credentials
from orbitmq.testing import LocalBroker
from tests.kit.running_console import RunningConsole


@pytest.fixture(scope="module")
def guarded(
    console_broker: LocalBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningConsole]:
    folder = tmp_path_factory.mktemp("guarded")
    for name, role in (("vera", Role.VIEWER), ("olga", Role.OPERATOR), ("ada", Role.ADMIN)):
        set_user(folder / "users", name, role, f"password of {name}")
    with RunningConsole(folder, here=console_broker.namesrv) as running:
        yield running


def log_in(console: RunningConsole, name: str) -> httpx.Client:
    client = console.client()
    answer = client.post("/api/login", json={"user": name, "password": f"password of {name}"})
    assert answer.status_code == 200, answer.text
    client.headers["X-CSRF-Token"] = answer.json()["csrfToken"]
    return client


def test_nothing_is_told_before_the_login(guarded: RunningConsole) -> None:
    client = guarded.client()
    assert client.get("/api/session").json() == {
        "wantsLogin": True, "user": None, "role": None, "csrfToken": None, "clusters": [], "version": "",
        "passwordLogin": True, "signOn": None, "readsBodies": False, "maskedFields": [],
    }  # fmt: skip
    for path in ("/api/clusters/here/overview", "/api/clusters/here/topics", "/api/audit"):
        answer = client.get(path)
        assert (answer.status_code, answer.json()["code"]) == (401, "LOGIN_NEEDED")


def test_the_cookie_of_a_session_is_for_this_site_and_no_script(guarded: RunningConsole) -> None:
    client = guarded.client()
    answer = client.post("/api/login", json={"user": "vera", "password": "password of vera"})
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie


def test_a_logout_ends_the_session_for_everybody_with_its_cookie(guarded: RunningConsole) -> None:
    client = log_in(guarded, "vera")
    cookies = dict(client.cookies)
    assert client.get("/api/clusters/here/topics").status_code == 200
    assert client.post("/api/logout", json={}).status_code == 200
    thief = httpx.Client(base_url=guarded.url, cookies=cookies)
    assert thief.get("/api/clusters/here/topics").status_code == 401
    thief.close()


def test_roles_allow_more_and_more(guarded: RunningConsole, console_broker: LocalBroker) -> None:
    console_broker.create_topic("roles", 1)
    path = "/api/clusters/here/topics/roles"
    statuses = {}
    for name in ("vera", "olga", "ada"):
        client = log_in(guarded, name)
        statuses[name] = [
            client.get(path).status_code,
            client.post(f"{path}/messages", json={"text": "x"}).status_code,
            client.put(path, json={"queues": 1}).status_code,
            client.get("/api/audit").status_code,
        ]
    assert statuses == {
        "vera": [200, 403, 403, 403], "olga": [200, 200, 403, 403], "ada": [200, 200, 200, 200],
    }  # fmt: skip


def test_wrong_passwords_are_slowed_down_for_the_right_one_too(guarded: RunningConsole) -> None:
    client = guarded.client()
    guess = {"user": "nobody", "password": "guess number one"}
    failed = 0
    # On a slow machine the first pause may be over before the next guess comes. Each is twice as long.
    while (answer := client.post("/api/login", json=guess)).status_code == 401:
        failed += 1
    assert failed >= FREE_FAILURES
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) >= 1
    guarded.console.login_limit.succeeded("address 127.0.0.1")
    assert log_in(guarded, "vera")


def test_refused_logins_are_counted_together_apart_from_changes(guarded: RunningConsole) -> None:
    client = guarded.client()
    for number in range(20):
        client.post("/api/login", json={"user": f"guess {number}", "password": "guess number one"})
    guarded.console.login_limit.succeeded("address 127.0.0.1")
    audit = log_in(guarded, "ada").get("/api/audit").json()
    assert not [one for one in audit["entries"] if one["outcome"] in ("WRONG_LOGIN", "TOO_MANY_LOGINS")]
    counts = {one["outcome"]: one["count"] for one in audit["refusedLogins"]}
    assert sum(counts.values()) >= 20
    assert set(counts) == {"WRONG_LOGIN", "TOO_MANY_LOGINS"}


def test_a_console_with_credentials_asks_for_them_on_the_loopback_too(
    console_broker: LocalBroker, tmp_path: Path
) -> None:
    access = Access(Credentials("root", "short"))
    with RunningConsole(tmp_path, access=access, here=console_broker.namesrv) as running:
        stranger = httpx.Client(base_url=running.url, timeout=60)
        assert stranger.get("/api/session").json()["wantsLogin"] is True
        assert stranger.get("/api/clusters/here/topics").status_code == 401
        wrong = stranger.post("/api/login", json={"user": "root", "password": "other"})
        assert (wrong.status_code, "--access-key" in wrong.json()["advice"]) == (401, True)
        right = stranger.post("/api/login", json={"user": "root", "password": "short"})
        assert right.json()["role"] == "admin"
        assert stranger.get("/api/clusters/here/topics").status_code == 200
        set_user(tmp_path / "users", "vera", Role.VIEWER, "password of vera")
        assert stranger.get("/api/clusters/here/topics").status_code == 401, "users take its place"
        again = stranger.post("/api/login", json={"user": "root", "password": "short"})
        assert again.status_code == 401
        stranger.close()


def test_a_user_who_is_taken_from_the_file_is_logged_out(guarded: RunningConsole, tmp_path: Path) -> None:
    path = guarded.console.users.path
    set_user(path, "temp", Role.VIEWER, "password of temp")
    client = log_in(guarded, "temp")
    assert client.get("/api/clusters/here/topics").status_code == 200
    path.write_text(
        "".join(line for line in path.read_text().splitlines(True) if not line.startswith("temp:"))
    )
    assert client.get("/api/clusters/here/topics").status_code == 401


def test_an_open_stream_ends_when_its_user_is_taken_from_the_file(guarded: RunningConsole) -> None:
    path = guarded.console.users.path
    set_user(path, "leaver", Role.VIEWER, "password of leaver")
    client = log_in(guarded, "leaver")
    with client.stream("GET", "/api/clusters/here/overview/events", timeout=180) as events:
        lines = events.iter_lines()
        next(line for line in lines if line.startswith("data: "))
        path.write_text(
            "".join(line for line in path.read_text().splitlines(True) if not line.startswith("leaver:"))
        )
        rest = list(lines)
    assert "event: problem" in rest
    assert json.loads(rest[rest.index("event: problem") + 1].removeprefix("data: "))["code"] == "LOGIN_NEEDED"


def test_logins_stand_in_the_audit_log_without_the_password(guarded: RunningConsole) -> None:
    log_in(guarded, "ada")
    text = guarded.console.settings.audit_file.read_text()
    entries = [json.loads(line) for line in text.splitlines()]
    assert any(one["action"] == "log_in" and one["after"] == {"user": "ada"} for one in entries)
    assert "password of" not in text
