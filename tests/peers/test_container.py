"""The container image, built and run by whichever engine is here: docker, else podman.

Without an engine, or where the base image cannot be had, nothing of this is tried, and the end of the run
says so.
"""

from __future__ import annotations

import json
import re
import subprocess
import uuid
from collections.abc import Iterator

import pytest

from orbitmq import Message, sync
from orbitmq.server.turn.listener import free_ports
from tests.needs import container_engine, do_without, need
from tests.peers.machine import REPOSITORY

DOCKERFILE = REPOSITORY / "deploy" / "Dockerfile"
NAMESRV_PORT, BROKER_PORT = 9876, 10911
BODIES = [b"before the first stop", b"and another"]

pytestmark = pytest.mark.timeout(1800)


class Engine:
    """A container engine's command line."""

    def __init__(self, program: str) -> None:
        self.program = program

    def tried(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs a command of the engine, whatever comes of it."""
        return subprocess.run([self.program, *words], capture_output=True, text=True, cwd=REPOSITORY)

    def __call__(self, *words: str) -> str:
        """Runs a command of the engine that has to succeed; what it printed."""
        done = self.tried(*words)
        assert done.returncode == 0, f"{self.program} {' '.join(words)}: {done.stderr[-3000:]}"
        return done.stdout


@pytest.fixture(scope="module")
def engine() -> Engine:
    need("container")
    program = container_engine()
    assert program is not None
    return Engine(program)


@pytest.fixture(scope="module")
def image(engine: Engine) -> Iterator[str]:
    for base in dict.fromkeys(re.findall(r"^FROM (\S+)", DOCKERFILE.read_text(), re.MULTILINE)):
        if engine.tried("image", "inspect", base).returncode and engine.tried("pull", base).returncode:
            do_without(f"the image {base}, which cannot be pulled: ours is neither built nor run")
    name = f"orbitmq-test-{uuid.uuid4().hex[:8]}"
    # Images of podman's own format have no health check.
    flags = ["--format=docker"] if engine.program == "podman" else []
    engine("build", *flags, "-f", str(DOCKERFILE), "-t", name, ".")
    yield name
    engine.tried("rmi", "-f", name)


def test_the_image_keeps_messages_over_its_end_and_tells_clients_where_it_is(
    engine: Engine, image: str
) -> None:
    namesrv_port = free_ports(1)
    broker_port = namesrv_port + 1
    namesrv = f"127.0.0.1:{namesrv_port}"
    start = [
        "run", "--detach", "--name", image, "--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL",
        "--security-opt", "no-new-privileges",
        "--publish", f"{namesrv}:{NAMESRV_PORT}", "--publish", f"127.0.0.1:{broker_port}:{BROKER_PORT}",
        "--volume", f"{image}:/var/lib/orbitmq",
        image,
        "standalone", "--data-dir", "/var/lib/orbitmq", "--listen", "0.0.0.0",
        "--advertise", f"127.0.0.1:{broker_port}", "--log-format", "json",
    ]  # fmt: skip
    try:
        engine(*start)
        assert_serving(engine, image)
        with sync.Producer("container", namesrv=namesrv) as producer:
            for body in BODIES:
                producer.send(Message("Greetings", body))
        assert engine("exec", image, "id", "--user").strip() != "0"
        engine("stop", "--time", "60", image)
        state = json.loads(engine("inspect", image))[0]["State"]
        assert state["ExitCode"] == 0, engine("logs", image)
        engine("rm", image)
        # Another container of the same volume goes on where the first one ended.
        engine(*start)
        assert_serving(engine, image)
        with sync.PullConsumer("container", namesrv=namesrv) as consumer:
            found = [
                message.body for queue in consumer.queues("Greetings") for message in consumer.pull(queue, 0)
            ]
        assert sorted(found) == sorted(BODIES)
    finally:
        engine.tried("rm", "--force", image)
        engine.tried("volume", "rm", "--force", image)


def assert_serving(engine: Engine, container: str) -> None:
    """It answers, and the image's own health check says so, too."""
    engine("exec", container, "orbitmq", "ping", "--wait", "120")
    engine("exec", container, "orbitmq", "ping", "--wait", "120", "--broker", f"127.0.0.1:{BROKER_PORT}")
    check = json.loads(engine("inspect", container))[0]["Config"]["Healthcheck"]["Test"]
    assert check[0] == "CMD"
    engine("exec", container, *check[1:])
