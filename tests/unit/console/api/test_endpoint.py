import socket

import httpx
import pytest

from orbitmq.testing import LocalBroker
from tests.kit.running_console import RunningConsole

PATH = "/api/clusters/here/topics/endpoint"


@pytest.mark.parametrize(
    "headers",
    [
        {"X-CSRF-Token": ""},
        {"X-CSRF-Token": "x" * 43},
        {"Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_change_from_another_site_is_refused(api: httpx.Client, headers: dict[str, str]) -> None:
    answer = api.put(PATH, json={}, headers=headers)
    assert answer.status_code == 403
    assert answer.headers["content-type"] == "application/problem+json"
    assert api.get(PATH).status_code == 404


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}],
)
def test_a_reading_request_of_another_site_is_refused(api: httpx.Client, headers: dict[str, str]) -> None:
    for path in ("/api/session", "/api/clusters/here/topics", "/api/clusters/here/overview/events"):
        answer = api.get(path, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "OTHER_ORIGIN")
    assert api.get("/api/session", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200


def test_a_silent_broker_of_any_name_is_in_a_header(console: RunningConsole, api: httpx.Client) -> None:
    reader = console.console.clusters["here"].reader
    before, reader.silent = reader.silent, frozenset({"☃.example:10911", "a\r\nSet-Cookie: x"})
    try:
        answer = api.get("/api/clusters/here/history?minutes=3")
    finally:
        reader.silent = before
    assert answer.status_code == 200
    assert answer.headers["X-Silent-Brokers"].split(",")[1] == "%E2%98%83.example:10911"
    assert "set-cookie" not in answer.headers


def test_a_form_of_another_site_cannot_be_taken_for_json(api: httpx.Client) -> None:
    answer = api.put(PATH, content='{"queues": 4}', headers={"Content-Type": "text/plain"})
    assert (answer.status_code, answer.json()["code"]) == (415, "JSON_NEEDED")


@pytest.mark.parametrize(
    ("content", "status", "code", "field"),
    [
        (b"{", 400, "NOT_JSON", ""),
        (b"\xff", 400, "NOT_JSON", ""),
        (b'{"queues": "many"}', 422, "INVALID", "queues"),
        (b'{"queues": 0}', 422, "INVALID", "queues"),
        (b'{"queues": 100000}', 422, "INVALID", "queues"),
        (b'{"attributes": {"a": 1}}', 422, "INVALID", "attributes[...]"),
        (b'{"quues": 4}', 422, "INVALID", ""),
    ],
)
def test_bad_json_is_answered_with_its_place(
    api: httpx.Client, content: bytes, status: int, code: str, field: str
) -> None:
    answer = api.put(PATH, content=content, headers={"Content-Type": "application/json"})
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem.get("field", "")) == (status, code, field)


def test_a_body_that_is_too_long_is_refused_before_it_is_read(api: httpx.Client) -> None:
    with socket.create_connection((api.base_url.host, api.base_url.port or 0), 5) as raw:
        head = (
            f"PUT {PATH} HTTP/1.1\r\nHost: {api.base_url.netloc.decode()}\r\n"
            f"Content-Type: application/json\r\nX-CSRF-Token: {api.headers['X-CSRF-Token']}\r\n"
            "Content-Length: 9999999\r\n\r\n"
        )
        raw.sendall(head.encode())
        assert raw.recv(4096).startswith(b"HTTP/1.1 413 ")


def test_unknown_paths_and_clusters_say_what_there_is(api: httpx.Client) -> None:
    assert api.get("/api/nonsense").json()["code"] == "NO_ENDPOINT"
    answer = api.get("/api/clusters/nowhere/topics")
    assert (answer.status_code, answer.json()["advice"]) == (404, "There are: here, gone.")


def test_a_cluster_that_does_not_answer_is_a_504_with_advice(api: httpx.Client) -> None:
    answer = api.get("/api/clusters/gone/topics")
    assert (answer.status_code, answer.json()["code"]) == (504, "NO_ANSWER")


def test_unknown_queries_are_refused(api: httpx.Client) -> None:
    assert api.get("/api/clusters/here/history?hours=3").status_code == 422
    assert api.get("/api/clusters/here/history?minutes=3").status_code == 200


def test_every_change_stands_in_the_audit_log_refused_ones_too(
    api: httpx.Client, console_broker: LocalBroker
) -> None:
    path = "/api/clusters/here/topics/audited"
    assert api.put(path, json={"queues": 2}).status_code == 200
    assert api.request("DELETE", path, json={"confirm": "wrong"}).status_code == 422
    assert api.request("DELETE", path, json={"confirm": "audited"}).status_code == 200
    entries = [one for one in api.get("/api/audit").json()["entries"] if one["target"] == "here/audited"]
    assert [(one["action"], one["outcome"]) for one in reversed(entries)] == [
        ("put_topic", "done"),
        ("delete_topic", "NOT_CONFIRMED"),
        ("delete_topic", "done"),
    ]
    assert entries[0]["before"]["write_queue_nums"] == 2
    assert entries[0]["user"] == "local"


def test_a_fault_is_a_problem_with_a_number_that_the_log_has(
    api: httpx.Client,
    console: RunningConsole,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail() -> None:
        raise ZeroDivisionError("inner words")

    monkeypatch.setattr(console.console.audit, "recent", fail)
    answer = api.get("/api/audit")
    assert (answer.status_code, answer.json()["code"]) == (500, "FAULT")
    number = answer.json()["advice"].split("number ")[1][:8]
    assert f"fault {number} in GET /api/audit" in caplog.text
    assert "inner words" not in answer.text
