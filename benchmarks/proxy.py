"""Our proxy beside Apache's, in cluster mode before the same broker, under the same Java client at one rate.

    python -m benchmarks.proxy            five rounds, some ten minutes; needs Linux, a JDK 17+ and Maven
    python -m benchmarks.proxy --quick    one short round

CPU time is that of the proxy's process alone, per message; memory is RssAnon. Broker, proxies and client
share the machine; the proxy that is not measured stands still.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks.processes import cpu_seconds
from orbitmq.net.blocking import BlockingConnection
from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
from orbitmq.protocol.names import AUTO_CREATE_TOPIC
from orbitmq.protocol.requests.group import UpdateAndCreateSubscriptiongroup
from orbitmq.protocol.requests.topic import UpdateAndCreateTopic
from tests.needs import java, javac
from tests.peers.machine import jars
from tests.peers.orbitmq_process import OrbitMQ
from tests.peers.proxy_process import BehindApacheProxy, BehindProxy
from tests.proxy.bare_client import BareClient

JAVA = Path(__file__).parent / "java" / "grpc"
TOPIC, GROUP = "ProxyLoad", "ProxyLoadGroup"
RATE = 500
STREAMS = 1000


class Optimised(BehindApacheProxy):
    """Apache's proxy with both compilers and its own collector, as its script starts it."""

    java_options = ("-XX:+UseG1GC",)


class Loader:
    """The Java client on one address."""

    def __init__(self, classes: Path, library: Path, address: str, kind: str) -> None:
        first = next(library.glob("rocketmq-client-java-*.jar"))
        logs = [f"-Drocketmq.log.root={classes}", f"-Drocketmq.client.logRoot={classes}"]
        path = f"{classes}:{first}:{library}/*"
        self._process = subprocess.Popen(
            [java(), *logs, "-cp", path, "GrpcLoad", address, kind, TOPIC, GROUP],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._read("ready")

    def _read(self, wanted: str = "") -> str:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(wanted) if wanted else line[:1].isdigit():
                return line
        raise RuntimeError("the Java client has ended")

    def run(self, seconds: float, rate: float) -> list[int]:
        """Messages, errors, consumed, p50 and p99 in microseconds."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seconds} {rate}\n")
        self._process.stdin.flush()
        return [int(word) for word in self._read().split()]

    def close(self) -> None:
        """Ends it."""
        self._process.kill()
        self._process.wait()


@contextlib.contextmanager
def paused(proxy: BehindProxy) -> Iterator[None]:
    """The proxy stands still."""
    os.killpg(proxy.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.killpg(proxy.pid, signal.SIGCONT)


def anonymous_mb(pid: int) -> float:
    """RssAnon of a process."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("RssAnon:")[2].split()[0]) / 1024


async def memory_of_streams(proxy: BehindProxy) -> tuple[float, float]:
    """Memory (MB) of a proxy with many clients whose telemetry streams are open, and its growth by them."""
    before = anonymous_mb(proxy.pid)
    clients = [
        BareClient(proxy.proxy, f"stream-{number}", options=[("grpc.use_local_subchannel_pool", 1)])
        for number in range(STREAMS)
    ]
    for first in range(0, STREAMS, 50):
        part = clients[first : first + 50]
        await asyncio.gather(*(one.settle_in(one.consuming(GROUP, TOPIC)) for one in part))
    await asyncio.sleep(2)
    with_streams = anonymous_mb(proxy.pid)
    await asyncio.gather(*(one.close() for one in clients))
    return with_streams, with_streams - before


def compiled(folder: Path, library: Path) -> Path:
    """The load's classes."""
    source = JAVA / "GrpcLoad.java"
    first = next(library.glob("rocketmq-client-java-*.jar"))
    path = f"{first}:{library}/*"
    subprocess.run([javac(), "-nowarn", "-d", str(folder), "-cp", path, str(source)], check=True)
    return folder


@contextlib.contextmanager
def running(folder: Path) -> Iterator[tuple[OrbitMQ, dict[str, BehindProxy]]]:
    """The broker, and both proxies before it."""
    broker = OrbitMQ.start(folder / "store")
    with contextlib.ExitStack() as started:
        started.callback(broker.stop)
        with BlockingConnection(broker.broker) as connection:
            connection.call(UpdateAndCreateTopic(TOPIC, AUTO_CREATE_TOPIC, 8, 8, 6, "SINGLE_TAG", False))
            connection.call(UpdateAndCreateSubscriptiongroup(SubscriptionGroupConfig(GROUP)))
        proxies: dict[str, BehindProxy] = {}
        for name, kind in (("ours", BehindProxy), ("apache", Optimised)):
            proxies[name] = kind.start(broker)
            started.callback(proxies[name].end)
        yield broker, proxies


class Figures:
    """What was measured, by title and column, and ratios by their titles."""

    def __init__(self) -> None:
        self.values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        self.ratios: dict[str, list[float]] = defaultdict(list)

    def add(self, title: str, **columns: float) -> None:
        """Notes figures of one round."""
        for name, value in columns.items():
            self.values[title][name].append(value)

    def show(self) -> None:
        """Prints medians of all rounds, and medians of the rounds' ratios."""
        for title, columns in self.values.items():
            print(f"{title}: " + ", ".join(f"{name} {median(all_):.0f}" for name, all_ in columns.items()))
        for title, all_ in self.ratios.items():
            print(f"{title}: {median(all_):.2f}")


def measure(rounds: int, seconds: float, warm: float, rate: float) -> None:
    """Measures, and prints."""
    folder = Path(tempfile.mkdtemp(prefix="orbitmq-proxy-"))
    library = jars(JAVA / "pom.xml", "benchmarks-grpc")
    classes = compiled(folder, library)
    figures = Figures()
    with running(folder) as (broker, proxies), contextlib.ExitStack() as loads:

        def loader(address: str, kind: str) -> Loader:
            made = Loader(classes, library, address, kind)
            loads.callback(made.close)
            made.run(warm, rate)
            return made

        direct = loader(broker.namesrv, "direct")
        for kind in ("send", "both"):
            loaders = {name: loader(one.proxy, kind) for name, one in proxies.items()}
            for number in range(rounds):
                cpu: dict[str, float] = {}
                for name in list(proxies) if number % 2 else list(reversed(proxies)):
                    other = proxies[next(one for one in proxies if one != name)]
                    with paused(other):
                        loaders[name].run(2, rate)
                        before = cpu_seconds(proxies[name].pid)
                        sent, errors, consumed, p50, p99 = loaders[name].run(seconds, rate)
                        cpu[name] = (cpu_seconds(proxies[name].pid) - before) / max(sent, 1) * 1e6
                    figures.add(
                        f"{kind}, {name}",
                        cpu_us=cpu[name],
                        p50_us=p50,
                        p99_us=p99,
                        errors=errors,
                        consumed=consumed,
                    )
                figures.ratios[f"CPU of {kind}, ours to Apache's"].append(cpu["ours"] / cpu["apache"])
                if kind == "send":
                    *_, p50, p99 = direct.run(seconds, rate)
                    figures.add("send, no proxy", p50_us=p50, p99_us=p99)
                    ours = figures.values["send, ours"]["p99_us"][-1]
                    figures.ratios["p99 of send, our proxy to none"].append(ours / p99)
            for one in loaders.values():
                one.close()
        for name, proxy in proxies.items():
            whole, growth = asyncio.run(memory_of_streams(proxy))
            figures.add(f"{STREAMS} streams, {name}", whole_mb=whole, more_than_before_mb=growth)
    figures.show()


def main() -> None:
    """Measures, and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rate", type=float, default=RATE)
    given = parser.parse_args()
    began = time.monotonic()
    if given.quick:
        measure(1, 5, 5, given.rate)
    else:
        measure(5, 15, 20, given.rate)
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
