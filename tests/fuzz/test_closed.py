"""An authenticated cluster under requests by chance: nothing is done without a right, and no secret gets out.

Senders are nobody, unknown, known without a right, and known with a signature that is not theirs. Requests
are all that are declared, well-formed and not.
"""

from __future__ import annotations

import logging
import os
import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from orbitmq.broker.auth.encryption import SEALED
from orbitmq.broker.auth.permissions import NEEDS
from orbitmq.net.blocking import BlockingConnection
from orbitmq.protocol.bodies.auth import UserInfo
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.records.message import TRANSACTION_COMMIT
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.remoting.frame import FrameSplitter, encode_command
from orbitmq.protocol.remoting.signing import Credentials
from orbitmq.protocol.requests import every as _every  # noqa: F401 (it fills REQUESTS)
from orbitmq.protocol.requests.admin import GetBrokerConfig
from orbitmq.protocol.requests.auth import AuthCreateUser, AuthListAcl, AuthListUser
from orbitmq.protocol.requests.group import GetAllSubscriptiongroupConfig
from orbitmq.protocol.requests.offset import GetAllConsumerOffset, GetMaxOffset
from orbitmq.protocol.requests.send import SendMessageV2
from orbitmq.protocol.requests.topic import GetAllTopicConfig, UpdateAndCreateTopic
from orbitmq.protocol.requests.transaction import EndTransaction
from orbitmq.protocol.schema.declare import REQUESTS
from orbitmq.testing import LocalBroker

SEED = int(os.environ.get("ORBITMQ_FUZZ_SEED", "1"))
ROUNDS = int(os.environ.get("ORBITMQ_CLOSED_ROUNDS", "3"))
"""Number of times that each sender tries each request."""
ROOT = Credentials("root", "root-Secret-5d1c9")
ANN = Credentials("ann", "ann-Secret-77aa0")
INNER = Credentials("inner", "inner-Secret-0b0b0")
SECRETS = [credentials.secret_key for credentials in (ROOT, ANN, INNER)]
TOPIC = "Closed"
JUNK = (
    "",
    "0",
    "-1",
    "99999999999999999999",
    "%s",
    "\u00fc\x00",
    "../../etc/passwd",
    "true",
    "*",
    TOPIC,
    "T" * 300,
)
BODIES = (
    b"",
    b"{}",
    b"[]",
    b"\x00" * 40,
    b'{"username":"eve","password":"x","userType":"Super"}',
    b"rejectTransactionMessage=true",
)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LocalBroker]:
    with LocalBroker(
        tmp_path / "data",
        timeout_seconds=120,
        authenticationEnabled="true",
        authorizationEnabled="true",
        initAuthenticationUser=f'{{"username":"{ROOT.access_key}","password":"{ROOT.secret_key}"}}',
        innerClientAuthenticationCredentials=(
            f'{{"accessKey":"{INNER.access_key}","secretKey":"{INNER.secret_key}"}}'
        ),
    ) as running:
        yield running


@contextmanager
def logged() -> Iterator[list[str]]:
    """Every line that anybody logs."""
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(logging.Formatter().format(record))

    handler, log = Keep(), logging.getLogger("orbitmq")
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    try:
        yield lines
    finally:
        log.removeHandler(handler)
        log.setLevel(before)


def fields(kind: Any, chance: random.Random) -> dict[str, str]:
    """Header fields as the request has them, some of them junk or absent."""
    found = {}
    for row in kind.FIELDS:
        if row.kind in ("bytes", "json", "either", "meta") or chance.random() < 0.1:
            continue
        if chance.random() < 0.3:
            found[row.wire_name] = chance.choice(JUNK)
        elif row.kind in ("int", "long"):
            found[row.wire_name] = str(chance.choice((0, 1, 4, 6)))
        else:
            found[row.wire_name] = "false" if row.kind == "bool" else TOPIC
    return found


def forged(command: Command, who: str, chance: random.Random) -> None:
    """Signs a request as somebody would who must not get in, or (`ann`) as one without any right."""
    if who == "ann":
        ANN.sign(command)
        return
    name, secret = {
        "nobody": ("", ""),
        "a stranger": ("eve", "eve"),
        "root by name": (ROOT.access_key, ""),
        "root with a guess": (ROOT.access_key, ANN.secret_key),
        "inner with a guess": (INNER.access_key, ANN.secret_key),
        "root, changed on the way": (ROOT.access_key, ROOT.secret_key),
    }[who]
    if name and secret:
        Credentials(name, secret).sign(command)
        if who.endswith("way"):
            assert command.ext is not None
            command.ext["added"] = str(chance.random())
    elif name:
        command.ext = {**(command.ext or {}), "AccessKey": name, "Signature": chance.choice(JUNK)}


STRANGERS = (
    "nobody",
    "a stranger",
    "root by name",
    "root with a guess",
    "inner with a guess",
    "root, changed on the way",
)


class Wire:
    """A connection that sends what it likes and keeps all that it hears."""

    def __init__(self, address: str) -> None:
        host, port = address.split(":")
        self._socket = socket.create_connection((host, int(port)), timeout=120)
        self._splitter = FrameSplitter()
        self._opaque = 0
        self.heard: list[bytes] = []

    def ask(self, command: Command) -> Command:
        self._opaque += 1
        command.opaque = self._opaque
        self._socket.sendall(encode_command(command))
        while True:
            data = self._socket.recv(1 << 16)
            assert data, f"the connection ended at request {command.code}"
            self.heard.append(data)
            for answer in self._splitter.feed(data):
                if answer.opaque == self._opaque and answer.flag & 1:
                    return answer

    def close(self) -> None:
        self._socket.close()


def state(root: BlockingConnection) -> list[Any]:
    """State that an intruder might have changed."""
    config = root.call(GetBrokerConfig()).body
    return [
        root.call(GetAllTopicConfig()).body.topic_config_table.keys(),
        root.call(GetAllSubscriptiongroupConfig()).body.subscription_group_table.keys(),
        root.call(GetAllConsumerOffset()).body,
        [root.call(GetMaxOffset(TOPIC, queue_id)).offset for queue_id in range(4)],
        sorted(user.username or "" for user in root.call(AuthListUser()).body.users),
        root.call(AuthListAcl()).body,
        config,
    ]


def test_nothing_is_done_without_a_right_and_no_secret_gets_out(broker: LocalBroker, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    print(f"ORBITMQ_FUZZ_SEED={SEED}")
    with logged() as lines:
        root = BlockingConnection(broker.broker, credentials=ROOT)
        root.call(UpdateAndCreateTopic(TOPIC, "TBW102", 4, 4, 6, "SINGLE_TAG", False))
        root.call(
            AuthCreateUser(ANN.access_key, body=UserInfo(ANN.access_key, ANN.secret_key, "Normal", "enable"))
        )
        root.call(SendMessageV2("g", TOPIC, "TBW102", 4, 0, 0, 0, 0, "", body=b"for nobody's eyes"))
        before = state(root)
        wire = Wire(broker.broker)
        for code, kind in sorted(REQUESTS.items()):
            if "broker" not in kind.SERVED_BY:
                continue
            for _ in range(ROUNDS):
                for who in (*STRANGERS, "ann"):
                    command = Command(code, 0, 0, fields(kind, chance), chance.choice(BODIES))
                    if kind is EndTransaction and command.ext is not None:
                        # One that decides nothing has no answer to wait for.
                        command.ext["commitOrRollback"] = str(TRANSACTION_COMMIT)
                    forged(command, who, chance)
                    answer = wire.ask(command)
                    if who != "ann":
                        assert answer.code == ResponseCode.NO_PERMISSION, f"{code} of {who}: {answer}"
                    elif code in NEEDS and not NEEDS[code].open_reason:
                        assert answer.code != ResponseCode.SUCCESS or _asks_for_nothing(command), (
                            f"{code} of {who}: {answer}"
                        )
                    assert b"nobody's eyes" not in (answer.body or b"")
        wire.close()
        assert state(root) == before
        # Nobody is shown a secret, not even who may see the options. Users with theirs are listed to a super
        # user alone, whose signature was checked.
        heard = b"".join(wire.heard) + before[-1]
        root.close()
        broker.halt()
    assert (tmp_path / "data" / "config" / "auth.json").read_text().count(SEALED) == len(SECRETS)
    for secret in SECRETS:
        assert secret.encode() not in heard
        assert not [line for line in lines if secret in line]
        for path in sorted((tmp_path / "data").rglob("*")):
            if path.is_file():
                assert secret.encode() not in path.read_bytes(), f"a secret is in {path}"
                if path.name.startswith("auth."):
                    assert path.stat().st_mode & 0o077 == 0, f"{path} can be read by others"


def _asks_for_nothing(command: Command) -> bool:
    """True if a request names nothing that a right could be about."""
    try:
        return not NEEDS[command.code].accesses(command, "DefaultCluster")
    except Exception:
        return False
