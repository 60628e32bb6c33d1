"""A cluster of processes on the loopback: name servers, masters and their slaves, over one folder; with
failover etcd and controllers too, and brokers whose roles these decide.

The folder says what the cluster is (`cluster.json`), so that another process can look at it, kill one of its
nodes or stop it; each node has its own folder with its options, its process id, its log and its data.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Self

from orbitmq.net.blocking import BlockingConnection
from orbitmq.options.properties import parse_properties
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.requests.controller import ControllerGetReplicaInfo
from orbitmq.protocol.requests.ha import GetBrokerHaStatus
from orbitmq.server.turn.listener import free_ports
from orbitmq.testing.local_broker import SMALL_SEGMENTS, START_SECONDS, StartFailed
from orbitmq.testing.local_etcd import etcd_command

FILE_NAME = "cluster.json"
LOOPBACK = "127.0.0.1"
MODES = {"async-master": "ASYNC_MASTER", "sync-master": "SYNC_MASTER"}
FLUSHES = {"async": "ASYNC_FLUSH", "sync": "SYNC_FLUSH"}
KINDS = ("etcd", "namesrv", "controller", "master", "slave", "replica")
"""Kinds of nodes in the order in which they start."""
CONTROLLERS = 2
HEARTBEAT_TIMEOUT_MS = 3_000
"""Time after which a silent master of a cluster with failover is replaced."""
LOG_LINES = 8
"""So many lines of the log of a node that does not start are shown."""
_STEP_SECONDS = 0.02


class NoSuchCluster(OrbitError):
    """A folder holds no cluster, or its cluster no such node."""


@dataclass(frozen=True, slots=True)
class Node:
    """One process: `kind` is etcd, namesrv, controller, master, slave, or replica, whose role a controller
    decides.
    """

    name: str
    kind: str
    address: str
    group: str = ""
    """The broker group (brokerName) of a broker."""
    options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node at this moment. Offsets are physical ones of the log; -1 where they are unknown."""

    node: Node
    is_running: bool
    log_end: int = -1
    behind_bytes: int = -1
    """Bytes of its master's log that a slave lacks."""
    role: str = ""
    """The node's kind, and of a running replica its role: master or slave."""


class LocalCluster:
    """A cluster for as long as it is entered, or until `stop`.

    `mode` is async-master or sync-master: then a message is acknowledged once a slave has it, where there are
    slaves. `flush` is async or sync. `properties` are the brokers', by Apache's names. Without `data_dir` the
    data goes when the cluster does. All nodes listen on 127.0.0.1; they and their clients know each other by
    `known_as`, another address of the loopback where somebody relays their connections.

    With `failover` controllers decide which broker of a group is its master, and keep their decisions in
    etcd. In mode sync-master a message is acknowledged then once every in-sync broker of its group has it.
    """

    def __init__(
        self,
        data_dir: Path | None = None,
        *,
        masters: int = 1,
        slaves: int = 0,
        name_servers: int = 1,
        mode: str = "async-master",
        flush: str = "async",
        failover: bool = False,
        known_as: str = LOOPBACK,
        timeout_seconds: float = START_SECONDS,
        **properties: object,
    ) -> None:
        self._known_as = known_as
        self._temporary = None if data_dir else tempfile.TemporaryDirectory(prefix="orbitmq-")
        self.data_dir = data_dir or Path(self._temporary.name if self._temporary else "")
        self._timeout_seconds = timeout_seconds
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._log_begins: dict[str, int] = {}
        """The place in a node's log at which its last start begins."""
        self.demoted: dict[str, str] = {}
        """Old masters that were started as slaves, with the names of their masters."""
        options = {
            "brokerRole": MODES[mode],
            "flushDiskType": FLUSHES[flush],
            "inSyncReplicas": str(min(2, 1 + slaves)),
            "slaveReadEnable": "true",
            **({} if known_as == LOOPBACK else {"brokerIP1": known_as, "brokerIP2": known_as}),
            **{name: str(value) for name, value in properties.items()},
        }
        if failover:
            options |= {
                "brokerRole": MODES["sync-master"],
                "inSyncReplicas": "1",
                "enableControllerMode": "true",
                "allAckInSyncStateSet": str(mode == "sync-master").lower(),
                "controllerHeartBeatTimeoutMills": str(HEARTBEAT_TIMEOUT_MS),
                "checkSyncStateSetPeriod": "500",
                "syncBrokerMetadataPeriod": "1000",
                **{name: str(value) for name, value in properties.items()},
            }
        self.nodes = tuple(self._make_nodes(masters, slaves, name_servers, options, failover))

    def _make_nodes(
        self, masters: int, slaves: int, name_servers: int, options: dict[str, str], failover: bool
    ) -> Iterable[Node]:
        if failover:
            store = Node(
                "etcd-0", "etcd", f"{LOOPBACK}:{free_ports()}", options={"peerPort": str(free_ports())}
            )
            yield store
            controllers = [
                Node(
                    f"controller-{number}",
                    "controller",
                    f"{LOOPBACK}:{free_ports()}",
                    options={"storeAddress": f"etcd://{self._known(store)}", "storeLeaseSeconds": "2"},
                )
                for number in range(CONTROLLERS)
            ]
            for node in controllers:
                node.options["advertisedAddress"] = self._known(node)
            yield from controllers
            options = {**options, "controllerAddr": ";".join(map(self._known, controllers))}
        servers = [
            Node(f"namesrv-{number}", "namesrv", f"{LOOPBACK}:{free_ports()}")
            for number in range(name_servers)
        ]
        yield from servers
        known = ";".join(map(self._known, servers))
        for master in range(masters):
            group = f"broker-{chr(ord('a') + master)}" if masters <= 26 else f"broker-{master}"
            for number in range(1 + slaves):
                own = {"namesrvAddr": known, "brokerName": group, **options}
                kind = "replica" if failover else "slave" if number else "master"
                if not failover:
                    own["brokerId"] = str(number)
                if kind == "slave":
                    own["brokerRole"] = "SLAVE"
                address = f"{LOOPBACK}:{free_ports(-2, 1)}"
                yield Node(f"{group}-{number}", kind, address, group, own)

    @classmethod
    def load(cls, data_dir: Path) -> LocalCluster:
        """The cluster of a folder, running or not. Raises NoSuchCluster."""
        try:
            rows = json.loads((data_dir / FILE_NAME).read_text())
            nodes = tuple(Node(**row) for row in rows)
        except (OSError, ValueError, TypeError):
            raise NoSuchCluster(f"{data_dir} holds no cluster that `orbitmq cluster` has made") from None
        cluster = cls(data_dir, masters=0, name_servers=0)
        cluster.nodes = nodes
        return cluster

    def settings(self) -> dict[str, object]:
        """The options of `orbitmq cluster` that make such a cluster, by their names."""
        brokers = [node for node in self.nodes if node.group]
        groups = len({node.group for node in brokers})
        options = brokers[0].options if brokers else {}
        failover = any(node.kind == "replica" for node in brokers)
        is_sync = options.get("brokerRole") == MODES["sync-master"]
        if failover:
            is_sync = options.get("allAckInSyncStateSet") == "true"
        return {
            "masters": groups,
            "slaves": len(brokers) // max(1, groups) - 1,
            "namesrvs": sum(node.kind == "namesrv" for node in self.nodes),
            "mode": "sync-master" if is_sync else "async-master",
            "flush": "sync" if options.get("flushDiskType") == FLUSHES["sync"] else "async",
            "failover": failover,
        }

    @property
    def namesrv(self) -> str:
        """Addresses of the name servers: what clients are given."""
        return ";".join(self._known(node) for node in self.nodes if node.kind == "namesrv")

    def _known(self, node: Node) -> str:
        """The address by which others know a node."""
        return f"{self._known_as}:{node.address.rpartition(':')[2]}"

    def node(self, name: str) -> Node:
        """The node of a name. Raises NoSuchCluster."""
        for node in self.nodes:
            if node.name == name:
                return node
        names = ", ".join(node.name for node in self.nodes)
        raise NoSuchCluster(f"there is no node {name}; there are {names}")

    # Starting.

    def start(self) -> Self:
        """Starts what does not run; returns when all serve and every slave follows. Raises StartFailed."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        (self.data_dir / FILE_NAME).write_text(
            json.dumps([asdict(node) for node in self.nodes], indent=1) + "\n"
        )
        for kind in KINDS:
            started = [
                node for node in self.nodes if self._part(node) == kind and not self.is_running(node.name)
            ]
            for node in started:
                self._begin(node)
            for node in started:
                self._await(node, self._is_ready(node), "is not ready")
        for node in self.nodes:
            if self._part(node) == "slave":
                self._await(node, lambda node=node: self._follows(node), "does not follow its master")  # type: ignore[misc]
            elif node.kind == "replica":
                self._await(node, lambda node=node: self._is_in_sync(node.group), "is not in sync")  # type: ignore[misc]
        return self

    def start_node(self, name: str) -> None:
        """Starts one node, and returns when it serves. Raises StartFailed, NoSuchCluster."""
        node = self.node(name)
        if not self.is_running(name):
            self._begin(node)
            self._await(node, self._is_ready(node), "is not ready")

    def _begin(self, node: Node) -> None:
        folder = self.data_dir / node.name
        folder.mkdir(parents=True, exist_ok=True)
        ready = folder / "ready"
        ready.unlink(missing_ok=True)
        port = node.address.rpartition(":")[2]
        if node.kind == "etcd":
            peers = {node.name: int(node.options["peerPort"])}
            self._run(node, etcd_command(folder / "data", node.name, int(port), peers))
            return
        if node.kind == "namesrv":
            what = ["namesrv", "--port", port, "--data-dir", str(folder / "data")]
        elif node.kind == "controller":
            sets = [part for name, value in node.options.items() for part in ("--set", f"{name}={value}")]
            what = ["controller", "--port", port, *sets]
        else:
            values = {
                **SMALL_SEGMENTS,
                **node.options,
                "listenPort": port,
                "storePathRootDir": str(self.data_folder(node.name)),
                **self._role(node),
            }
            config = folder / "node.conf"
            config.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
            what = ["broker", "--config", str(config), "--init"]
        self._run(node, [sys.executable, "-m", "orbitmq", *what, "--ready-file", str(ready)])

    def _role(self, node: Node) -> dict[str, str]:
        """Role and id with which a broker of fixed role starts, if others than it was made with.

        It keeps those that an operator has given it. An old master comes back as a slave if another one was
        made master meanwhile: two would take messages.
        """
        if node.kind not in ("master", "slave"):
            return {}
        there = self._options_now(node)
        role, broker_id = there.get("brokerRole", ""), there.get("brokerId", "")
        if role != "SLAVE" and (master := self._master_of(node.group)) != node.name:
            role = "SLAVE"
            self.demoted[node.name] = master
        if role == "SLAVE" and broker_id == "0":
            used = {self._options_now(one).get("brokerId") for one in self.nodes if one.group == node.group}
            broker_id = next(str(number) for number in range(1, len(used) + 2) if str(number) not in used)
        return {"brokerRole": role, "brokerId": broker_id}

    def _options_now(self, node: Node) -> dict[str, str]:
        """The options of a broker, with the role that it has noted in its file."""
        config = self.data_dir / node.name / "node.conf"
        if node.kind not in ("master", "slave") or not config.exists():
            return node.options
        return {**node.options, **parse_properties(config.read_bytes(), str(config))}

    def _master_of(self, group: str) -> str:
        """The name of the one master of a group with fixed roles. Of several nodes that were master, it is
        the one that runs, and else that whose file was written last: a promotion writes it.
        """
        masters = [
            node
            for node in self.nodes
            if node.group == group and self._options_now(node).get("brokerRole") != "SLAVE"
        ]

        def age(node: Node) -> tuple[bool, int]:
            config = self.data_dir / node.name / "node.conf"
            return self.is_running(node.name), config.stat().st_mtime_ns if config.exists() else 0

        return max(masters, key=age).name if masters else ""

    def _part(self, node: Node) -> str:
        """The node's kind, and of a broker of fixed role its role now: master or slave."""
        if node.kind not in ("master", "slave"):
            return node.kind
        return "master" if self._master_of(node.group) == node.name else "slave"

    def _run(self, node: Node, command: list[str]) -> None:
        folder = self.data_dir / node.name
        with (folder / "log").open("ab") as log:
            self._log_begins[node.name] = log.tell()
            process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )
        self._processes[node.name] = process
        (folder / "pid").write_text(str(process.pid))

    def _is_ready(self, node: Node) -> Callable[[], bool]:
        if node.kind != "etcd":
            return (self.data_dir / node.name / "ready").exists

        def listens() -> bool:
            host, _, port = node.address.rpartition(":")
            with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 1):
                return True
            return False

        return listens

    def _is_in_sync(self, group: str) -> bool:
        """True if a group has a master, and the controllers' in-sync set all members that run."""
        running = [node for node in self.nodes if node.group == group and self.is_running(node.name)]
        for controller in self.nodes:
            if controller.kind == "controller":
                with contextlib.suppress(OrbitError), BlockingConnection(controller.address) as connection:
                    reply = connection.call(ControllerGetReplicaInfo(group))
                    ids = set() if reply.body is None else reply.body.sync_state_set or set()
                    return reply.master_broker_id is not None and len(ids) >= len(running)
        return False

    def master(self, group: str = "broker-a") -> Node | None:
        """The node that is master of a group at this moment, by its own word; None where none is."""
        return next(
            (
                one.node
                for one in self.status()
                if one.log_end >= 0 and one.role == "master" and one.node.group == group
            ),
            None,
        )

    def _follows(self, slave: Node) -> bool:
        if not (name := self._master_of(slave.group)):
            return False
        master = self.node(name)
        try:
            with (
                BlockingConnection(slave.address) as at_slave,
                BlockingConnection(master.address) as at_master,
            ):
                mine = at_slave.call(GetBrokerHaStatus()).body.ha_client_runtime_info
                theirs = at_master.call(GetBrokerHaStatus()).body
        except OrbitError:
            return False
        # The slave is among those that the master knows, and has all that it had then.
        return (
            mine.last_write_timestamp > 0
            and bool(theirs.ha_connection_info)
            and mine.max_offset >= (theirs.master_commit_log_max_offset)
        )

    def _await(self, node: Node, is_so: Callable[[], bool], complaint: str) -> None:
        deadline = time.monotonic() + self._timeout_seconds
        while not is_so():
            if not self.is_running(node.name) or time.monotonic() > deadline:
                raise StartFailed(f"{node.name} {complaint}: {self._said(node)}")
            time.sleep(_STEP_SECONDS)

    def _said(self, node: Node) -> str:
        """The last lines of a node's log since its last start, and where there is more."""
        log = self.data_dir / node.name / "log"
        with log.open("rb") as file:
            file.seek(self._log_begins.get(node.name, 0))
            lines = file.read().decode(errors="replace").splitlines()
        return "\n".join([f"its log {log} ends with", *lines[-LOG_LINES:]])

    # Running.

    def data_folder(self, name: str) -> Path:
        """The folder in which a node keeps its data."""
        return self.data_dir / name / "data"

    def pid(self, name: str) -> int:
        """The process of a node, whoever has started it; 0 where it does not run."""
        process = self._processes.get(name)
        if process is not None and process.poll() is None:
            return process.pid
        try:
            pid = int((self.data_dir / name / "pid").read_text())
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError):
            return 0
        # The number may be another process's by now.
        return pid if str(self.data_dir / name).encode() in command else 0

    def is_running(self, name: str) -> bool:
        """True if the process of a node is alive."""
        return self.pid(name) > 0

    def kill(self, name: str) -> None:
        """Ends a node as a crash would. Raises NoSuchCluster."""
        self._end([self.node(name)], signal.SIGKILL)

    def stop_node(self, name: str) -> None:
        """Ends a node in order. Raises NoSuchCluster."""
        self._end([self.node(name)], signal.SIGTERM)

    def halt(self) -> None:
        """Ends all nodes in order, slaves first, and keeps the data for another `start`."""
        for kind in reversed(KINDS):
            self._end([node for node in self.nodes if self._part(node) == kind], signal.SIGTERM)

    def stop(self) -> None:
        """Ends all nodes in order and removes a temporary data folder."""
        self.halt()
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def _end(self, nodes: list[Node], by: signal.Signals) -> None:
        pids = {node.name: self.pid(node.name) for node in nodes}
        for pid in pids.values():
            if pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, by)
        deadline = time.monotonic() + self._timeout_seconds
        while any(self.is_running(name) for name, pid in pids.items() if pid):
            if time.monotonic() > deadline:
                by = signal.SIGKILL
                for name in pids:
                    if pid := self.pid(name):
                        os.kill(pid, by)
            time.sleep(_STEP_SECONDS)

    def status(self) -> list[NodeState]:
        """All nodes as they are."""
        ends: dict[str, int] = {}
        states = []
        for node in self.nodes:
            end, role = -1, node.kind
            if node.group and self.is_running(node.name):
                with contextlib.suppress(OrbitError), BlockingConnection(node.address) as connection:
                    body = connection.call(GetBrokerHaStatus()).body
                    role = "master" if body.master else "slave"
                    end = (
                        body.master_commit_log_max_offset
                        if body.master
                        else body.ha_client_runtime_info.max_offset
                    )
                    if body.master:
                        ends[node.group] = end
            states.append(NodeState(node, self.is_running(node.name), end, role=role))
        return [
            replace(one, behind_bytes=max(0, ends[one.node.group] - one.log_end))
            if one.role == "slave" and one.log_end >= 0 and one.node.group in ends
            else one
            for one in states
        ]

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()
