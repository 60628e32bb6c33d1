"""Login in a real browser at an OpenID Connect provider that is not ours, a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from orbitmq.console.security.roles import Role
from orbitmq.console.security.single_sign_on import Provider
from orbitmq.testing import LocalBroker
from tests.kit.running_console import RunningConsole
from tests.peers.machine import free_port


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    """Its users: `ann`, an operator, and `nobody`, who has no role."""
    port = free_port()
    users = [{"sub": "ann", "groups": ["mq-operators"]}, {"sub": "nobody", "groups": []}]
    command = [sys.executable, "-m", "oidc_provider_mock", "--port", str(port)]
    for user in users:
        command += ["--user-claims", json.dumps(user)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        address = f"http://127.0.0.1:{port}"
        while True:
            assert process.poll() is None, "the provider has ended"
            try:
                found = httpx.get(f"{address}/.well-known/openid-configuration").json()
                break
            except httpx.HTTPError:
                continue
        yield found["issuer"]
    finally:
        process.terminate()
        process.wait(120)


@pytest.fixture
def window(browser: Browser, shop: LocalBroker, issuer: str, tmp_path: Path) -> Iterator[Page]:
    provider = Provider(issuer, "the-console", "any secret", "groups", {"mq-operators": Role.OPERATOR})
    with RunningConsole(tmp_path, provider=provider, shop=shop.namesrv) as running:
        context = browser.new_context(base_url=running.url, locale="en-GB")
        context.set_default_timeout(30_000)
        yield context.new_page()
        context.close()


def test_an_operator_logs_in_at_the_provider_and_comes_back_to_the_page(window: Page) -> None:
    window.goto("/shop/topics?filter=ship")
    link = window.get_by_role("link", name="Log in at 127.0.0.1")
    expect(link).to_be_visible()
    expect(window.get_by_label("Password")).to_have_count(0)
    assert Axe().run(window).response["violations"] == []
    link.click()
    window.get_by_role("button", name="ann").click()
    expect(window.get_by_role("heading", name="Topics")).to_be_visible()
    expect(window.get_by_role("searchbox")).to_have_value("ship")
    expect(window.locator(".who")).to_have_text("ann")
    expect(window.get_by_role("link", name="Audit log")).to_have_count(0)
    window.get_by_role("button", name="Log out").click()
    expect(link).to_be_visible()


def test_a_user_without_a_role_is_told_where_to_get_one(window: Page) -> None:
    window.goto("/")
    window.get_by_role("link", name="Log in at 127.0.0.1").click()
    window.get_by_role("button", name="nobody").click()
    expect(window.get_by_role("alert")).to_contain_text("You have no role for this console")
    expect(window.get_by_role("alert")).to_contain_text("SIGN_ON_NO_ROLE")
