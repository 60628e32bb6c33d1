"""Requests as the Java client sends them are taken, and nothing declared is lost."""

import json
from pathlib import Path

import pytest

from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.requests.every import REQUESTS

SENT = json.loads((Path(__file__).parent / "vectors" / "client_requests.json").read_text())["requests"]
RPC_FIELDS = {"ns", "nsd", "bname", "oway", "lo", "ReqT"}


@pytest.mark.parametrize("sent", SENT, ids=lambda sent: f"{sent['code']}-{sent['client']}")
def test_taken_and_given_back(sent) -> None:
    body = sent["body"].encode() if "body" in sent else None
    command = Command(sent["code"], ext=sent["extFields"], body=body)
    request = REQUESTS[sent["code"]].from_command(command)
    again = request.to_command()
    lost = {name for name, value in sent["extFields"].items() if (again.ext or {}).get(name) != value}
    assert lost <= RPC_FIELDS
    assert (again.body or None) == body
    assert type(request).from_command(again) == request
