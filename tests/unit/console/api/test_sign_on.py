"""Login at an OpenID Connect provider that signs with real keys: the right answers, and every wrong one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from joserfc.jwk import RSAKey

from orbitmq.console.security.roles import Role
from orbitmq.console.security.single_sign_on import Provider
from orbitmq.console.security.users import set_user
from orbitmq.testing import LocalBroker
from tests.kit.running_console import RunningConsole
from tests.kit.sign_on_provider import CLIENT_ID, SECRET, SignOnProvider

ROLES = {"mq-admins": Role.ADMIN, "mq-readers": Role.VIEWER}


@pytest.fixture
def provider() -> Iterator[SignOnProvider]:
    with SignOnProvider() as running:
        running.claims["groups"] = ["staff", "mq-readers"]
        yield running


@pytest.fixture
def console(
    provider: SignOnProvider, console_broker: LocalBroker, tmp_path: Path
) -> Iterator[RunningConsole]:
    settings = Provider(provider.issuer, CLIENT_ID, SECRET, "groups", ROLES)
    with RunningConsole(tmp_path, provider=settings, here=console_broker.namesrv) as running:
        yield running


def walk(client: httpx.Client, to: str = "/here/topics") -> httpx.Response:
    """A browser's way to the provider and back, to the first answer of the console that leads to a page."""
    answer = client.get("/api/sign-on", params={"to": to})
    assert answer.status_code == 303
    for _ in range(2):
        if not answer.headers["location"].startswith("http"):
            break
        answer = client.get(answer.headers["location"])
    return answer


def failure(console: RunningConsole, client: httpx.Client) -> tuple[str, str]:
    """The code of a login that fails, and its reason. Nobody is logged in."""
    answer = walk(client)
    assert client.get("/api/session").json()["user"] is None
    entry = max(console.console.refused_logins.recent(), key=lambda one: one.last_ms)
    code = answer.headers["location"].removeprefix("/?failed=")
    assert (entry.action, entry.outcome) == ("sign_on", code)
    return code, entry.error or ""


def test_a_user_of_the_provider_has_the_role_of_the_claim(
    console: RunningConsole, provider: SignOnProvider
) -> None:
    client = console.client()
    before = client.get("/api/session").json()
    assert (before["wantsLogin"], before["passwordLogin"], before["signOn"]) == (True, False, "127.0.0.1")
    assert client.get("/api/clusters/here/topics").status_code == 401
    answer = walk(client)
    assert answer.headers["location"] == "/here/topics"
    cookie = next(one for one in answer.headers.get_list("set-cookie") if "session" in one)
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    session = client.get("/api/session").json()
    assert (session["user"], session["role"]) == ("ann", "viewer")
    assert client.get("/api/clusters/here/topics").status_code == 200
    client.headers["X-CSRF-Token"] = session["csrfToken"]
    refused = client.put("/api/clusters/here/topics/mine", json={"queues": 1})
    assert (refused.status_code, refused.json()["code"]) == (403, "ROLE_NEEDED")
    entries = [json.loads(one) for one in console.console.settings.audit_file.read_text().splitlines()]
    after = {"user": "ann", "role": "viewer", "bodies": "yes", "issuer": provider.issuer, "subject": "u-1"}
    assert entries[0]["after"] == after
    assert SECRET not in console.console.settings.audit_file.read_text()
    assert client.post("/api/logout", json={}).status_code == 200
    assert client.get("/api/clusters/here/topics").status_code == 401


def test_the_provider_decides_anew_when_the_time_of_a_session_is_over(
    provider: SignOnProvider, console_broker: LocalBroker, tmp_path: Path
) -> None:
    settings = Provider(provider.issuer, CLIENT_ID, SECRET, "groups", ROLES, session_seconds=0)
    with RunningConsole(tmp_path, provider=settings, here=console_broker.namesrv) as console:
        client = console.client()
        assert walk(client).headers["location"] == "/here/topics"
        assert client.get("/api/clusters/here/topics").status_code == 401
        provider.claims["groups"] = ["staff"]
        assert failure(console, client)[0] == "SIGN_ON_NO_ROLE"


def test_the_highest_role_counts_and_the_page_of_the_user_is_asked_where_the_token_has_none(
    console: RunningConsole, provider: SignOnProvider
) -> None:
    provider.claims["groups"] = ["mq-readers", "mq-admins"]
    client = console.client()
    walk(client)
    assert client.get("/api/session").json()["role"] == "admin"
    del provider.claims["groups"]
    provider.user_info = {"sub": "u-1", "groups": "mq-admins"}
    client = console.client()
    walk(client)
    assert client.get("/api/session").json()["role"] == "admin"
    provider.user_info["sub"] = "u-2"
    assert failure(console, console.client())[0] == "SIGN_ON_NO_ROLE"


@pytest.mark.parametrize(
    ("lies", "words"),
    [
        ({"iss": "http://elsewhere"}, "iss"),
        ({"aud": "another-client"}, "aud"),
        ({"aud": ["the-console", "another"], "azp": "another"}, "azp"),
        ({"nonce": "of another login"}, "nonce"),
        ({"nonce": None}, "nonce"),
        ({"exp": 1_000_000}, "expired"),
        ({"sub": None}, "sub"),
    ],
)
def test_tokens_of_others_for_others_and_of_yesterday_are_refused(
    console: RunningConsole, provider: SignOnProvider, lies: dict[str, Any], words: str
) -> None:
    provider.lies = lies
    code, reason = failure(console, console.client())
    assert code == "SIGN_ON_TOKEN"
    assert words in reason


def test_a_token_that_another_key_signed_is_refused(
    console: RunningConsole, provider: SignOnProvider
) -> None:
    provider.signing_key = RSAKey.generate_key(2048, {"kid": "first"})
    assert failure(console, console.client())[0] == "SIGN_ON_TOKEN"


@pytest.mark.parametrize("algorithm", ["HS256", "none"])
def test_a_token_that_anybody_can_make_is_refused(
    console: RunningConsole, provider: SignOnProvider, algorithm: str
) -> None:
    provider.forges = algorithm
    assert failure(console, console.client())[0] == "SIGN_ON_TOKEN"


def test_a_provider_with_new_keys_is_believed_at_the_next_login(
    console: RunningConsole, provider: SignOnProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orbitmq.console.security.single_sign_on.NEW_KEYS_SECONDS", 0)
    walk(console.client())
    provider.key = RSAKey.generate_key(2048, {"kid": "second"})
    client = console.client()
    walk(client)
    assert client.get("/api/session").json()["user"] == "ann"


def test_a_login_that_another_browser_began_logs_nobody_in(
    console: RunningConsole, provider: SignOnProvider
) -> None:
    mallory, victim = console.client(), console.client()
    at_provider = mallory.get("/api/sign-on").headers["location"]
    link = mallory.get(at_provider).headers["location"]
    answer = victim.get(link)
    assert answer.headers["location"] == "/?failed=SIGN_ON_STATE"
    assert victim.get("/api/session").json()["user"] is None
    assert provider.token_requests == []
    own = victim.get("/api/sign-on").headers["location"]
    link = victim.get(own).headers["location"]
    assert victim.get(link).headers["location"] == "/"
    assert victim.get(link).headers["location"] == "/?failed=SIGN_ON_STATE", "a link works once"


def test_a_refusal_of_the_provider_leads_back_to_the_login(
    console: RunningConsole, provider: SignOnProvider
) -> None:
    provider.refuses = "access_denied"
    code, reason = failure(console, console.client())
    assert (code, reason) == ("SIGN_ON_REFUSED", "the provider refused: access_denied not today")


def test_a_user_without_a_role_is_told_so(console: RunningConsole, provider: SignOnProvider) -> None:
    provider.claims["groups"] = ["staff"]
    code, reason = failure(console, console.client())
    assert (code, reason) == ("SIGN_ON_NO_ROLE", "the claim groups of ann gives no role of the console")


def test_a_provider_that_is_gone_or_another_is_told_of(console_broker: LocalBroker, tmp_path: Path) -> None:
    with SignOnProvider() as provider:
        other = Provider(f"{provider.issuer}/", CLIENT_ID, SECRET)
        with RunningConsole(tmp_path / "a", provider=other, here=console_broker.namesrv) as running:
            code, reason = failure(running, running.client())
            assert code == "SIGN_ON_UNREACHABLE"
            assert "has to be the same, to the letter" in reason
    gone = Provider(provider.issuer, CLIENT_ID, SECRET)
    with RunningConsole(tmp_path / "b", provider=gone, here=console_broker.namesrv) as running:
        assert failure(running, running.client())[0] == "SIGN_ON_UNREACHABLE"


def test_users_with_passwords_log_in_beside_the_provider(console: RunningConsole) -> None:
    set_user(console.console.users.path, "root", Role.ADMIN, "password of root")
    client = console.client()
    assert client.get("/api/session").json()["passwordLogin"]
    answer = client.post("/api/login", json={"user": "root", "password": "password of root"})
    assert answer.json()["role"] == "admin"


@pytest.mark.parametrize(
    "to", ["//evil.example/", "https://evil.example", "/\\evil.example", "/api/logout", "x"]
)
def test_a_login_leads_to_pages_of_this_console_alone(console: RunningConsole, to: str) -> None:
    assert walk(console.client(), to).headers["location"] == "/"
