import httpx
import pytest

from orbitmq.console.security.guard import is_loopback_host


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8080", "127.0.0.1:1", "[::1]:8080", "[::1]", "LOCALHOST"]
)
def test_names_of_the_loopback_pass(host: str) -> None:
    assert is_loopback_host(host)


@pytest.mark.parametrize(
    "host", ["", "evil.example", "localhost.evil.example", "127.0.0.1:x", "evil:localhost"]
)
def test_other_names_do_not(host: str) -> None:
    assert not is_loopback_host(host)


def test_a_page_elsewhere_whose_name_points_here_is_refused(api: httpx.Client) -> None:
    answer = api.get("/api/session", headers={"Host": "evil.example"})
    assert answer.status_code == 421
    assert "csrf" not in answer.text.lower()


@pytest.mark.parametrize("path", ["/", "/api/session", "/static/app.js", "/api/nothing", "/here/topics/x"])
def test_every_answer_forbids_inline_scripts_frames_and_sniffing(api: httpx.Client, path: str) -> None:
    headers = api.get(path).headers
    assert "unsafe-inline" not in headers["content-security-policy"]
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
