"""A job's connections sign and are encrypted as its options say."""

import asyncio
import pickle
import ssl
from pathlib import Path

import pytest

from orbitmq.protocol.bodies.auth import Policy, User
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.remoting.signing import Credentials
from orbitmq.spark.errors import BadOption
from orbitmq.spark.read.cluster import Cluster, queue_bounds, readable_queues
from orbitmq.spark.read.connecting import Connecting
from orbitmq.spark.read.options import ReadOptions
from orbitmq.spark.read.planning import OffsetRange
from orbitmq.spark.read.pulling import QueuePuller, refuse_loss
from orbitmq.spark.stream.following import Follower
from orbitmq.spark.stream.groups import GroupOffsets
from tests.certificates import Authority
from tests.kit.access import entry
from tests.kit.running_standalone import running

ROOT = Credentials("root", "root-secret")
ANN = Credentials("ann", "ann-secret")
GUARDED = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": '{"username":"root","password":"root-secret"}',
    "tls.server.mode": "enforcing",
}


@pytest.mark.needs("openssl")
async def test_a_topic_of_a_guarded_broker_is_read_over_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    pair = authority.issue("server")
    files = {"tls.server.certPath": pair.cert, "tls.server.keyPath": pair.key}
    ann = Connecting(ANN, tls_ca=str(authority.cert))
    context = ssl.create_default_context(cafile=str(authority.cert))
    async with running(tmp_path / "data", files, credentials=ROOT, ssl=context, **GUARDED, **files) as here:
        table = here.broker.broker.auth
        table.put_user(User("ann", "ann-secret", user_type=2, user_status=1))
        rules = [entry("Topic:T", "Sub|Get"), entry("Group:TOOLS_CONSUMER", "Sub")]
        table.merge_acl("ann", [Policy(1, rules)])
        for number in range(5):
            await here.send("T", b"%d" % number)
        namesrv = [here.server.namesrv.address]

        def read(connecting: Connecting) -> int:
            bounds = queue_bounds(readable_queues(namesrv, ["T"], connecting), connecting)
            total = 0
            for queue, (low, high) in bounds.items():
                for _, first, end in QueuePuller(
                    OffsetRange(queue, low, high),
                    group="TOOLS_CONSUMER",
                    subscription="*",
                    on_loss=refuse_loss,
                    connecting=pickle.loads(pickle.dumps(connecting)),
                ):
                    total += end - first
            return total

        def stream() -> dict[str, dict[str, int]]:
            keys = {"accessKey": ANN.access_key, "secretKey": ANN.secret_key, "tlsCa": str(authority.cert)}
            given = {"namesrv": ";".join(namesrv), "subscribe": "T", "groupId": "lake", **keys}
            options = ReadOptions.parse(given, streaming=True)
            follower = Follower(options, cluster := Cluster(options.namesrv, options.connecting))
            offsets, writer = follower.initial(), GroupOffsets(options)
            assert writer.write(offsets)
            writer.close()
            cluster.close()
            return offsets

        assert await asyncio.to_thread(read, ann) == 5
        table.merge_acl("ann", [Policy(1, [*rules, entry("Group:lake", "Sub")])])
        followed = await asyncio.to_thread(stream)
        assert sum(followed["T"].values()) == 5
        offsets = here.broker.broker.offsets
        assert sum(offsets.get("lake", "T", queue) for queue in range(len(followed["T"]))) == 5
        with pytest.raises(BrokerRefused, match="check signature failed"):
            await asyncio.to_thread(read, Connecting(Credentials("ann", "x"), tls_ca=str(authority.cert)))


def test_a_file_of_no_use_is_named(tmp_path: Path) -> None:
    for path, words in ((tmp_path / "missing", "No such file"), (Path(__file__), "holds no certificate")):
        with pytest.raises(BadOption, match=words):
            Connecting(tls_ca=str(path)).connect("127.0.0.1:1")
