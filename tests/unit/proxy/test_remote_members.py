"""Members behind other proxies: who counts, and for how long."""

from __future__ import annotations

import pytest

from orbitmq.protocol.bodies.proxies import ChannelType, HeartbeatSyncerData, HeartbeatType, RemoteChannel
from orbitmq.protocol.errors import MalformedJson
from orbitmq.proxy.remote_members import EXPIRY_MS, RemoteMembers

# As Apache's proxy 5.5.0 writes it (fastjson2, fields in the order of their names).
FROM_APACHE = (
    b'{"channelData":"{\\"extendAttribute\\":null,\\"localAddress\\":\\"10.0.0.2:8080\\",'
    b'\\"remoteAddress\\":\\"10.0.0.3:40000\\",\\"remoteProxyIp\\":\\"10.0.0.2\\",\\"type\\":\\"REMOTING\\"}",'
    b'"clientId":"10.0.0.3@1","consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","consumeType":'
    b'"CONSUME_PASSIVELY","group":"g","heartbeatType":"REGISTER","language":"JAVA",'
    b'"lastUpdateTimestamp":1700000000000,"localProxyId":"10.0.0.2%8080%8081","messageModel":"CLUSTERING",'
    b'"subscriptionDataSet":[{"classFilterMode":false,"codeSet":[],"expressionType":"TAG","subString":"*",'
    b'"subVersion":1,"tagsSet":[],"topic":"t"}],"version":495}'
)


def told(client: str, kind: HeartbeatType = HeartbeatType.REGISTER, proxy: str = "other") -> bytes:
    channel = RemoteChannel("10.0.0.2", f"{client}:1", "10.0.0.2:8081", ChannelType.GRPC_V2)
    data = HeartbeatSyncerData(
        kind, client, group="g", local_proxy_id=proxy, channel_data=channel.to_json_text()
    )
    return data.to_json()


def ids(members: RemoteMembers, group: str = "g") -> list[str]:
    return [one.data.client_id for one in members.of_group(group)]


def test_a_group_changes_when_a_member_comes_or_goes_and_not_at_its_heartbeats() -> None:
    members = RemoteMembers("own", 10)
    assert [members.take(told("a"), now) for now in (1, 2)] == ["g", None]
    assert members.take(FROM_APACHE, 3) == "g"
    assert ids(members) == ["a", "10.0.0.3@1"]
    assert [one.speaks_remoting for one in members.of_group("g")] == [False, True]
    assert members.groups_of("t") == {"g"}
    assert [members.take(told("a", HeartbeatType.UNREGISTER), now) for now in (4, 5)] == ["g", None]
    assert ids(members) == ["10.0.0.3@1"]


def test_a_proxy_passes_over_itself_and_keeps_so_many_of_others() -> None:
    members = RemoteMembers("own", 2)
    members.take(told("mine", proxy="own"), 1)
    for client in ("a", "b", "c"):
        members.take(told(client), 1)
    assert ids(members) == ["a", "b"]


def test_members_that_are_not_heard_are_gone() -> None:
    members = RemoteMembers("own", 10)
    members.take(told("a"), 1)
    members.take(told("b"), 2)
    assert members.expire(EXPIRY_MS + 2) == {"g"}
    assert ids(members) == ["b"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"group":"g","clientId":"c","channelData":"{"}',
        FROM_APACHE.replace(b'"subscriptionDataSet":[', b'"subscriptionDataSet":[null,'),
        b"\xff",
    ],
)
def test_a_message_that_is_none_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedJson):
        RemoteMembers("own", 10).take(body, 1)
