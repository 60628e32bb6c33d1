"""ZooKeeper as the consensus store, over nodes in memory: what it writes, and what becomes of its errors.

`tests/peers/test_consensus_stores.py` has the same contract with a real ensemble.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from kazoo.exceptions import (
    BadVersionError,
    ConnectionLoss,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
)
from kazoo.protocol.states import KazooState

from orbitmq.server.controller import zookeeper, zookeeper_client
from orbitmq.server.controller.consensus import (
    ConsensusError,
    ForeignStore,
    LeaseLost,
    NoMajority,
    StoreRefused,
    StoreUnreachable,
    StoreUntrusted,
    StoreWiped,
)
from orbitmq.server.controller.zookeeper import MAX_CHANGES, TRIES, ZooKeeperStore
from orbitmq.server.controller.zookeeper_client import Ensemble, ZooKeeperClient, ZooKeeperTls

TIMEOUT_MS = 500


@dataclass
class Node:
    text: bytes
    version: int = 0
    ephemeralOwner: int = 0  # noqa: N815 - ZooKeeper's name


@dataclass
class Nodes:
    """The nodes of one ensemble, and the watches on them."""

    by_path: dict[str, Node] = field(default_factory=lambda: {"": Node(b"")})
    watches: list[Callable[[object], None]] = field(default_factory=list)
    before_transaction: Callable[[], None] | None = None
    """Called once: somebody else comes first."""

    def texts(self) -> dict[str, str]:
        return {path: node.text.decode() for path, node in self.by_path.items() if path}

    def create(self, path: str, text: bytes, owner: int = 0) -> str:
        if path.rpartition("/")[0] not in self.by_path:
            raise NoNodeError
        if path in self.by_path:
            raise NodeExistsError
        self.by_path[path] = Node(text, ephemeralOwner=owner)
        return path

    def check(self, path: str, version: int) -> Node:
        node = self.by_path.get(path)
        if node is None:
            raise NoNodeError
        if version not in (-1, node.version):
            raise BadVersionError
        return node

    def set_data(self, path: str, text: bytes, version: int) -> Node:
        before = self.check(path, version)
        self.by_path[path] = Node(text, before.version + 1, before.ephemeralOwner)
        return self.by_path[path]

    def delete(self, path: str) -> None:
        self.check(path, -1)
        del self.by_path[path]

    def end(self, session: int) -> None:
        self.by_path = {path: node for path, node in self.by_path.items() if node.ephemeralOwner != session}


class Result:
    """An answer of kazoo's, which is there at once."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.exception: Exception | None = None
        try:
            self._value = work()
        except Exception as error:
            self.exception = error

    def rawlink(self, then: Callable[[Result], None]) -> None:
        if not isinstance(self.exception, TimeoutError):
            then(self)

    def get_nowait(self) -> Any:
        return self._value


class Transaction:
    def __init__(self, kazoo: Kazoo) -> None:
        self._kazoo = kazoo
        self._todo: list[Callable[[], Any]] = []

    def create(self, path: str, text: bytes, *, ephemeral: bool) -> None:
        owner = self._kazoo._session_id if ephemeral else 0
        self._todo.append(lambda: self._kazoo.nodes.create(path, text, owner))

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *given: self._todo.append(lambda: getattr(self._kazoo.nodes, name)(*given))

    def commit_async(self) -> Result:
        return self._kazoo.answer(self._commit)

    def _commit(self) -> list[Any]:
        nodes = self._kazoo.nodes
        hook, nodes.before_transaction = nodes.before_transaction, None
        if hook is not None:
            hook()
        before, results = dict(nodes.by_path), list[Any]()
        for operation in self._todo:
            try:
                results.append(operation())
            except Exception as error:
                nodes.by_path = before
                rest = len(self._todo) - len(results) - 1
                return [*[RolledBackError()] * len(results), error, *[RuntimeInconsistency()] * rest]
        return results


class Kazoo:
    """A client of ensembles in memory, by their addresses."""

    ensembles: ClassVar[dict[str, Nodes]] = {}
    errors: ClassVar[deque[Exception]] = deque()
    """Results of the next calls."""
    numbers = itertools.count(1)

    def __init__(self, hosts: str, timeout: float, **_: object) -> None:
        self.nodes = self.ensembles.setdefault(hosts.split(",")[0], Nodes())
        self._session_id = next(self.numbers)
        self._connection = SimpleNamespace(_connect=lambda: (timeout * 1000 * 2 / 3, 0))

    def add_listener(self, listener: Callable[[str], None]) -> None:
        self.tell = listener

    def start_async(self) -> None:
        self._connection._connect()
        self.tell(KazooState.CONNECTED)

    def answer(self, work: Callable[[], Any]) -> Result:
        def fail() -> None:
            raise self.errors.popleft()

        return Result(fail if self.errors else work)

    def get_async(self, path: str) -> Result:
        def get() -> tuple[bytes, Node]:
            node = self.nodes.check(path, -1)
            return node.text, node

        return self.answer(get)

    def create_async(self, path: str, text: bytes) -> Result:
        return self.answer(lambda: self.nodes.create(path, text))

    def get_children_async(self, path: str, watch: Callable[[object], None] | None) -> Result:
        self.nodes.check(path, -1)
        self.nodes.watches += [watch] if watch is not None else []
        return self.answer(
            lambda: [one.rpartition("/")[2] for one in self.nodes.by_path if f"{path}/" in one]
        )

    def exists_async(self, path: str, watch: Callable[[object], None]) -> Result:
        return self.answer(lambda: self.nodes.watches.append(watch))

    def transaction(self) -> Transaction:
        return Transaction(self)

    def stop(self) -> None:
        self.nodes.end(self._session_id)

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def ensembles(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Nodes]]:
    monkeypatch.setattr(zookeeper_client, "KazooClient", Kazoo)
    yield Kazoo.ensembles
    Kazoo.ensembles.clear()
    Kazoo.errors.clear()


def store_at(*endpoints: str, group: str = "east") -> ZooKeeperStore:
    return ZooKeeperStore(endpoints or ("zk:1",), prefix="a/b", group=group, timeout_ms=TIMEOUT_MS)


async def test_any_key_is_one_node_below_the_prefix_and_fences_are_no_keys(
    ensembles: dict[str, Nodes],
) -> None:
    store = store_at()
    await store.open()
    lease = await store.grant(6)
    guard = await store.create("members/..", "own", lease.id)
    assert guard is not None
    keys = {"groups/ä/b": "1", ".": "2", "..": "3", "!": "4"}
    assert await store.commit(keys, guard) is not None
    assert await store.read() == {**keys, "members/..": "own", "identity": store._identity.text}
    assert await store.read("groups/") == {"groups/ä/b": "1"}
    assert set(ensembles["zk:1"].texts()) == {
        "/a", "/a/b", "/a/b/identity", "/a/b/members%2F..", "/a/b/!members%2F..",
        "/a/b/groups%2F%C3%A4%2Fb", "/a/b/%2E", "/a/b/%2E%2E", "/a/b/%21",
    }  # fmt: skip
    await store.close()
    assert "members/.." not in await store_at().read(), "it went with its lease"


async def test_changes_go_in_parts_under_the_guard_and_an_earlier_try_is_refused() -> None:
    store = store_at()
    await store.open()
    lease, other = await store.grant(6), await store.grant(6)
    first = await store.create("leader", "c1", lease.id)
    assert first is not None
    assert await store.create("leader", "c1", lease.id) == first, "made twice, it is once"
    assert await store.create("leader", "c2", other.id) is None
    many: dict[str, str | None] = {f"groups/{number}": "x" for number in range(MAX_CHANGES + 1)}
    later = await store.commit(many, first)
    assert later is not None
    assert later.revision == first.revision + 2
    again = await store.commit({"groups/0": None}, first)
    assert again is not None, "the try before was carried out: it goes on from there"
    assert again.revision == later.revision + 1
    assert len(await store.read("groups/")) == MAX_CHANGES
    await store.revoke(lease.id)
    assert await store.commit({"groups/1": "y"}, again) is None
    assert await store.create("leader", "c2", other.id) is not None
    assert await store.commit({"groups/1": "y"}, again) is None, "the key is another lease's"
    assert (await store.read("groups/"))["groups/1"] == "x"


async def test_nodes_that_come_or_go_meanwhile_are_looked_for_again_a_few_times(
    ensembles: dict[str, Nodes],
) -> None:
    store = store_at()
    await store.open()
    lease = await store.grant(6)
    guard = await store.create("leader", "c1", lease.id)
    assert guard is not None
    nodes = ensembles["zk:1"]
    nodes.before_transaction = lambda: nodes.by_path.update({"/a/b/groups%2F1": Node(b"theirs")})
    guard = await store.commit({"groups/1": "ours"}, guard)
    assert guard is not None
    assert (await store.read("groups/"))["groups/1"] == "ours"

    def meddle() -> None:
        nodes.by_path["/a/b/!leader"].version += 1
        nodes.before_transaction = meddle

    meddle()
    with pytest.raises(ConsensusError, match="written by somebody else"):
        await store.commit({"groups/1": "later"}, guard)
    nodes.before_transaction = None
    await store.put("seen", "1", lease.id)
    Kazoo.errors.extend([NoNodeError(), NodeExistsError()] * TRIES)
    with pytest.raises(ConsensusError, match="/a/b/seen in ZooKeeper is written by somebody else"):
        await store.put("seen", "2", lease.id)


async def test_a_lease_counts_for_a_part_of_its_session_and_not_for_the_next_session() -> None:
    store = store_at()
    await store.open()
    lease = await store.grant(6)
    assert lease.holds_ms == 6_000 * zookeeper.SESSION_PART // zookeeper.HOLDING_PART
    client = store._leases[lease.id]
    transact = client.transact

    async def end_meanwhile(operations: Any) -> Any:
        results = await transact(operations)
        client._kazoo.tell(KazooState.LOST)
        return results

    client.transact = end_meanwhile  # type: ignore[method-assign]
    with pytest.raises(LeaseLost):
        await store.renew(lease.id)
    with pytest.raises(LeaseLost):
        await store.put("leader", "c1", lease.id)


async def test_a_store_that_is_wiped_or_of_others_is_named(ensembles: dict[str, Nodes]) -> None:
    store = store_at()
    await store.open()
    await store.open()
    lease = await store.grant(6)
    with pytest.raises(ForeignStore, match="belongs to the controllers of 'east'"):
        await store_at(group="west").open()
    identity = ensembles["zk:1"].by_path["/a/b/identity"]
    identity.text = identity.text.replace(b'"id": "', b'"id": "f')
    with pytest.raises(StoreWiped, match="are new, or of another ensemble"):
        await store.open()
    ensembles["zk:1"].by_path = {"": Node(b"")}
    for call in (store.open(), store.grant(6), store.renew(lease.id), anext(store.watch(""))):
        with pytest.raises(StoreWiped):
            await call
    assert await store.read() == {}
    with pytest.raises(ForeignStore, match="members are of two ensembles"):
        await store_at("zk:1", "zk:2").open()


async def test_a_watch_tells_of_changes(ensembles: dict[str, Nodes]) -> None:
    store = store_at()
    await store.open()
    watch = store.watch("identity")
    await anext(watch)
    following = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    assert not following.done()
    assert len(ensembles["zk:1"].watches) == 2, "one for keys that come and go, one for the text"
    ensembles["zk:1"].watches[-1](object())
    await following


@pytest.mark.parametrize(
    ("errors", "raised", "says"),
    [
        ([ConnectionLoss()], None, ""),
        ([ConnectionLoss(), ConnectionLoss()], StoreUnreachable, "cannot be reached"),
        ([TimeoutError()], StoreUnreachable, "cannot be reached"),
        ([SessionExpiredError()], NoMajority, "has ended the session"),
        ([NoAuthError()], StoreRefused, "does not allow it: NoAuthError"),
        ([OSError("broken")], ConsensusError, "OSError: broken"),
        ([NoNodeError()], NoNodeError, "^$"),
    ],
)
async def test_errors_of_a_call(errors: list[Exception], raised: type[Exception] | None, says: str) -> None:
    client = await ZooKeeperClient.connect(Ensemble(("127.0.0.1:1",), 0.05), 6)
    Kazoo.errors.extend(errors)
    if raised is None:
        assert await client.call(lambda kazoo: kazoo.get_async("")) == (b"", Node(b""))
        return
    with pytest.raises(raised, match=says):
        await client.call(lambda kazoo: kazoo.get_async(""))


async def test_a_transaction_raises_the_error_of_the_operation_that_failed() -> None:
    client = await ZooKeeperClient.connect(Ensemble(("zk:1",), 1), 6)
    create, check = zookeeper._create("/new", ""), zookeeper._check("/none", -1)
    with pytest.raises(NoNodeError):
        await client.transact([create, check, create])
    assert await client.transact([create]) == ["/new"], "nothing was done before"


async def test_silence_is_explained_by_what_says_most(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[asyncio.StreamWriter] = []
    silent = await asyncio.start_server(lambda reader, writer: held.append(writer), "127.0.0.1", 0)
    address = f"127.0.0.1:{silent.sockets[0].getsockname()[1]}"
    found = await Ensemble(("127.0.0.1:1", address), 1).explain_silence()
    assert isinstance(found, NoMajority)
    assert "or it expects TLS (storeCaPath)" in str(found)
    with pytest.raises(StoreUntrusted, match=r"none\.pem: No such file"):
        await Ensemble((address,), 1, ZooKeeperTls("none.pem")).explain_silence()
    monkeypatch.setattr(Kazoo, "start_async", lambda kazoo: None)
    with pytest.raises(NoMajority, match="has no majority, or is too slow"):
        await ZooKeeperClient.connect(Ensemble((address,), 0.05), 6)
    for writer in held:
        writer.close()
    silent.close()
