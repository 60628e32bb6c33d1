import asyncio
import base64
import json
import sqlite3
from pathlib import Path
from typing import Any

import httpx
import pytest

from orbitmq.console.security.roles import Role
from orbitmq.console.security.users import set_user
from orbitmq.testing import LocalBroker
from tests.kit.dead_letters import origin, plant
from tests.kit.running_console import RunningConsole

HERE = "/api/clusters/here"


def letters_of(broker: LocalBroker, group: str, number: int, topic: str, **more: str) -> None:
    asyncio.run(plant(broker.namesrv, group, number, origin(topic, **more)))


def clusters(api: httpx.Client, group: str) -> dict[str, Any]:
    """The last event."""
    with api.stream("GET", f"{HERE}/dead-letters/{group}/clusters") as answer:
        events = [line for line in answer.iter_lines() if line.startswith("data: ")]
    found: dict[str, Any] = json.loads(events[-1].removeprefix("data: "))
    return found


def finished(api: httpx.Client, run: str) -> dict[str, Any]:
    while True:
        detail: dict[str, Any] = api.get(f"{HERE}/redrives/{run}").json()
        if detail["run"]["endedMs"] is not None:
            return detail


def test_letters_are_clustered_shown_and_sent_again(api: httpx.Client, console_broker: LocalBroker) -> None:
    console_broker.create_topic("mended", 1)
    letters_of(console_broker, "c1", 40, "mended", exception="KeyError", colour="red")
    letters_of(console_broker, "c1", 2, "mended", exception="Timeout")
    found = clusters(api, "c1")
    assert (found["done"], found["scanned"], found["total"]) == (True, 42, 42)
    assert [(one["cause"]["exception"], one["count"]) for one in found["clusters"]] == [
        ("KeyError", 40),
        ("Timeout", 2),
    ]
    places = [
        f"{one['broker']}/{one['queueId']}/{one['queueOffset']}" for one in found["clusters"][1]["places"]
    ]
    shown = api.get(f"{HERE}/dead-letters/c1/letters", params={"place": places}).json()["letters"]
    assert [one["place"]["queueOffset"] for one in shown] == [41, 40]
    assert shown[0]["own"] == {"exception": "Timeout"}

    body = {"cause": found["clusters"][0]["cause"], "rate": 5000}
    preview = api.post(f"{HERE}/dead-letters/c1/redrive-preview", json=body).json()
    assert (preview["selected"], preview["wouldSend"], preview["filters"][0]["known"]) == (40, 40, False)
    assert preview["topics"] == {"mended": 40}
    # One more comes in between: the run is of those that the preview has counted.
    letters_of(console_broker, "c1", 1, "mended", exception="KeyError", colour="red")
    body["untilMs"] = preview["newestMs"]
    run = api.post(f"{HERE}/dead-letters/c1/redrive", json=body).json()
    detail = finished(api, run["id"])
    assert (detail["run"]["state"], detail["run"]["counts"]) == ("done", {"sent": 40})
    assert len(detail["letters"]) == 40
    assert {one["state"] for one in detail["letters"]} == {"sent"}
    assert run["id"] in [one["id"] for one in api.get(f"{HERE}/redrives").json()["runs"]]
    [message] = api.get(f"{HERE}/messages?topic=mended&key=l-3").json()["messages"]
    assert message["properties"]["colour"] == "red"

    entries = [one for one in api.get("/api/audit").json()["entries"] if one["target"] == "here/c1"]
    assert [(one["action"], one["user"]) for one in entries[:2]] == [
        ("redrive_ended", "local"),
        ("redrive_letters", "local"),
    ]
    assert entries[0]["after"] == {"run": run["id"], "sent": 40}
    assert (entries[1]["after"]["run"], entries[1]["after"]["rate"]) == (run["id"], 5000)


def test_one_letter_is_edited(api: httpx.Client, console_broker: LocalBroker) -> None:
    console_broker.create_topic("patched", 1)
    letters_of(console_broker, "c2", 1, "patched", exception="KeyError")
    place = {"broker": console_broker_name(api), "queueId": 0, "queueOffset": 0}
    edit = {"body": base64.b64encode(b"good").decode(), "tags": "t", "properties": {"size": "9"}}
    run = api.post(f"{HERE}/dead-letters/c2/redrive", json={"places": [place], "edit": edit}).json()
    assert finished(api, run["id"])["run"]["counts"] == {"sent": 1}
    [message] = api.get(f"{HERE}/messages?topic=patched&fromMs=0").json()["messages"]
    assert (base64.b64decode(message["body"]), message["tags"]) == (b"good", "t")
    assert message["properties"]["size"] == "9"
    for wrong in ({"body": "no base64!"}, {"properties": {"TAGS": "x"}}, {"properties": {"a": ""}}):
        answer = api.post(f"{HERE}/dead-letters/c2/redrive", json={"places": [place], "edit": wrong})
        assert answer.status_code == 422, wrong


def console_broker_name(api: httpx.Client) -> str:
    name: str = api.get(f"{HERE}/overview").json()["brokers"][0]["name"]
    return name


def test_a_run_is_stopped_and_tells_what_it_left(api: httpx.Client, console_broker: LocalBroker) -> None:
    console_broker.create_topic("halted", 1)
    letters_of(console_broker, "c3", 30, "halted", exception="KeyError")
    run = api.post(f"{HERE}/dead-letters/c3/redrive", json={"rate": 1}).json()
    while api.get(f"{HERE}/redrives/{run['id']}").json()["run"]["state"] != "running":
        pass
    stopped = api.post(f"{HERE}/redrives/{run['id']}/stop", json={}).json()
    assert stopped["state"] == "stopped"
    assert stopped["counts"]["stopped"] + stopped["counts"].get("sent", 0) == 30
    again = api.post(f"{HERE}/redrives/{run['id']}/stop", json={})
    assert (again.status_code, again.json()["code"]) == (422, "INVALID")


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "dead-letters/nobody/letters?place=b/0/0", None, 404, "TOPIC_NOT_EXIST"),
        ("GET", "dead-letters/c1/letters?place=b", None, 422, "INVALID"),
        ("GET", "dead-letters/c1/letters?place=b/0/-1", None, 422, "INVALID"),
        ("GET", f"dead-letters/c1/letters?place=b/{2**40}/1", None, 422, "INVALID"),
        ("GET", "redrives/nothing", None, 422, "INVALID"),
        ("POST", "dead-letters/nobody/redrive-preview", {}, 404, "TOPIC_NOT_EXIST"),
        ("POST", "dead-letters/c1/redrive", {"rate": 0}, 422, "INVALID"),
        ("POST", "dead-letters/c1/redrive", {"to": "elsewhere"}, 422, "INVALID"),
        ("POST", "dead-letters/c1/redrive", {"edit": {"tags": "x"}}, 422, "INVALID"),
    ],
)
def test_what_cannot_be_done_says_why(
    api: httpx.Client, method: str, path: str, body: object, status: int, code: str
) -> None:
    answer = api.request(method, f"{HERE}/{path}", **({} if body is None else {"json": body}))  # type: ignore[arg-type]
    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_an_unknown_group_ends_the_stream_with_a_problem(api: httpx.Client) -> None:
    with api.stream("GET", f"{HERE}/dead-letters/nobody/clusters") as answer:
        text = "".join(answer.iter_text())
    assert text.startswith("event: problem\n")
    assert "TOPIC_NOT_EXIST" in text


def test_a_viewer_reads_letters_and_sends_none(console_broker: LocalBroker, tmp_path: Path) -> None:
    letters_of(console_broker, "c4", 1, "mended", exception="KeyError")
    set_user(tmp_path / "users", "vera", Role.VIEWER, "password of vera")
    with RunningConsole(tmp_path, here=console_broker.namesrv) as running:
        api = running.client()
        login = api.post("/api/login", json={"user": "vera", "password": "password of vera"}).json()
        api.headers["X-CSRF-Token"] = login["csrfToken"]
        assert clusters(api, "c4")["total"] == 1
        for path in ("redrive", "redrive-preview"):
            answer = api.post(f"{HERE}/dead-letters/c4/{path}", json={})
            assert (answer.status_code, answer.json()["code"]) == (403, "ROLE_NEEDED")


def test_a_journal_that_another_console_uses_is_told(console_broker: LocalBroker, tmp_path: Path) -> None:
    letters_of(console_broker, "c5", 1, "mended", exception="KeyError")
    other = sqlite3.connect(tmp_path / "redrives.sqlite3")
    other.execute("CREATE TABLE t (a)")
    other.execute("BEGIN EXCLUSIVE")
    with RunningConsole(tmp_path, here=console_broker.namesrv) as running:
        answer = running.client().post(f"{HERE}/dead-letters/c5/redrive", json={})
        assert (answer.status_code, answer.json()["code"]) == (503, "JOURNAL")
        assert "another process uses it" in answer.json()["title"]
    other.close()
