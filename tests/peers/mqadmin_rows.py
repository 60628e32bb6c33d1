"""Every command of mqadmin 5.4.0: what is run against OrbitMQ and against Apache, or why it is not.

`{topic}` and `{group}` are the data that both servers have (`fill` in the test); `{own}` is a name of the
command's own. `{broker}` is the broker's address, `{id}` and `{offset_id}` are of the first message.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.peers.mqadmin_shell import (
    Normal,
    any_order,
    distinct,
    figures,
    keys_only,
    loads,
    plain,
    users_groups,
    without_lite,
    without_retries,
)


@dataclass(frozen=True)
class Row:
    """The lines to run for one command, and how their outputs are compared."""

    lines: tuple[str, ...]
    normal: Normal = plain
    but: frozenset[str] = frozenset()
    """Lines that only Apache prints; then OrbitMQ may print others of its own, too."""

    sampled: bool = False
    """True if the output follows from samples, which each server takes every 10 s by its own clock."""


def row(*lines: str, normal: Normal = plain, but: str = "", sampled: bool = False) -> Row:
    return Row(lines, normal, frozenset(but.split()), sampled)


NOT_OF_A_SERVER = """
    rocketmqHome useTLS socksProxyConfig channelNotActiveInterval clientAsyncSemaphoreValue
    clientCallbackExecutorThreads clientChannelMaxIdleTimeSeconds clientCloseSocketIfTimeout
    clientOnewaySemaphoreValue clientPooledByteBufAllocatorEnable clientSocketRcvBufSize
    clientSocketSndBufSize clientWorkerThreads connectTimeoutMillis disableCallbackExecutor
    disableNettyWorkerGroup enableReconnectForGoAway isScanAvailableNameSrv maxReconnectIntervalTimeSeconds
    endTransactionThreadPoolNums heartbeatThreadPoolNums litePullMessageThreadPoolNums
    processReplyMessageThreadPoolNums pullMessageThreadPoolNums putMessageFutureThreadPoolNums
    queryMessageThreadPoolNums sendMessageThreadPoolNums
"""
"""Settings of Netty's client within Apache's broker, and numbers of threads that follow from the machine."""


NAMES = "-c DefaultCluster"

ROWS: dict[str, Row] = {
    # Topics.
    "updateTopic": row(
        f"updateTopic {NAMES} -t {{own}} -r 5 -w 4",
        f"updateTopic {NAMES} -t {{own}} -r 6 -w 6 -p 4 -o true",
        "updateTopic -b {broker} -t {own}F -r 2 -w 2 -a +message.type=FIFO -u true -s true",
        "updateTopic -b {broker} -t {own}F -a +queue.type=BatchCQ",
        "updateTopic -b {broker} -t {own}F -a +no.such=1",
        "updateTopic -b {broker} -t {own}F --attributes=-no.such",
        "updateTopic -b {broker} -t {own}M -a +message.type=MIXED",
        "updateTopic -b {broker} -t {own}M -a +message.type=WRONG",
        "updateTopic -b {broker} -t {own}/x",
        "updateTopic -b {broker} -t SCHEDULE_TOPIC_XXXX",
        "topicRoute -t {own}",
        "topicRoute -t {own}F",
        normal=without_lite,
    ),
    "updateTopicList": row(
        f"updateTopicList {NAMES} -f {{files}}/topics.json",
        "updateTopicList -b {broker} -f {files}/topics.json",
        "topicRoute -l -t cmp_list_1",
        "topicRoute -l -t cmp_list_2",
    ),
    "updateTopicPerm": row(
        f"updateTopic {NAMES} -t {{own}} -r 1 -w 1",
        f"updateTopicPerm {NAMES} -t {{own}} -p 4",
        "updateTopicPerm -b {broker} -t {own} -p 4",
        "updateTopicPerm -b {broker} -t {own} -p 2",
        "topicRoute -l -t {own}",
        f"updateTopicPerm {NAMES} -t {{own}}none -p 4",
    ),
    "deleteTopic": row(
        f"updateTopic {NAMES} -t {{own}}",
        f"deleteTopic {NAMES} -t {{own}}",
        "topicRoute -t {own}",
        f"deleteTopic {NAMES} -t {{own}}",
    ),
    "topicRoute": row("topicRoute -t {topic}", "topicRoute -l -t {topic}", "topicRoute -t {own}none"),
    "topicStatus": row(
        "topicStatus -t {topic}", f"topicStatus {NAMES} -t {{topic}}", "topicStatus -t {own}none"
    ),
    "topicClusterList": row("topicClusterList -t {topic}", "topicClusterList -t {own}none"),
    "topicList": row("topicList", "topicList -c", normal=users_groups),
    "allocateMQ": row("allocateMQ -t {topic} -i 10.0.0.1,10.0.0.2,10.0.0.3"),
    # Groups.
    "updateSubGroup": row(
        f"updateSubGroup {NAMES} -g {{own}} -r 3 -d true",
        "updateSubGroup -b {broker} -g {own} -s false -m false -o true -q 2 -i 0 -w 1 -a false",
        "updateSubGroup -b {broker} -g {own} --attributes +priority.factor=50",
        "updateSubGroup -b {broker} -g {own}/x",
        "getConsumerConfig -g {own}",
    ),
    "updateSubGroupList": row(
        f"updateSubGroupList {NAMES} -f {{files}}/groups.json",
        "updateSubGroupList -b {broker} -f {files}/groups.json",
        "getConsumerConfig -g cmp_list_group",
    ),
    "deleteSubGroup": row(
        f"updateSubGroup {NAMES} -g {{own}}",
        f"deleteSubGroup {NAMES} -g {{own}} -r true",
        "deleteSubGroup -b {broker} -g {own}",
    ),
    "getConsumerConfig": row("getConsumerConfig -g {group}", "getConsumerConfig -g {own}none"),
    # Settings.
    "getBrokerConfig": row(
        "getBrokerConfig -b {broker}", f"getBrokerConfig {NAMES}", normal=keys_only, but=NOT_OF_A_SERVER
    ),
    "updateBrokerConfig": row(
        "updateBrokerConfig -b {broker} -k fileReservedTime -v 71",
        f"updateBrokerConfig {NAMES} -k fileReservedTime -v 72",
        "updateBrokerConfig -b {broker} -k configBlackList -v x",
        "updateBrokerConfig -b {broker} -k brokerConfigPath -v /x",
    ),
    "getNamesrvConfig": row("getNamesrvConfig", normal=keys_only, but=NOT_OF_A_SERVER),
    "updateNamesrvConfig": row(
        "updateNamesrvConfig -k orderMessageEnable -v true",
        "updateNamesrvConfig -k kvConfigPath -v /x",
    ),
    "updateKvConfig": row("updateKvConfig -s cmp -k {own} -v v1", "updateKvConfig -s cmp -k {own} -v v2"),
    "deleteKvConfig": row("deleteKvConfig -s cmp -k {own}", "deleteKvConfig -s cmp -k {own}"),
    "updateOrderConf": row(
        "updateOrderConf -t {own} -v broker-a:4 -m put",
        "updateOrderConf -t {own} -m get",
        "updateOrderConf -t {own} -m delete",
        "updateOrderConf -t {own} -m get",
        "updateOrderConf -t {own} -m other",
    ),
    "wipeWritePerm": row(
        "wipeWritePerm -b broker-a", "topicRoute -l -t {topic}", "addWritePerm -b broker-a", normal=figures
    ),
    "addWritePerm": row("addWritePerm -b broker-a", "addWritePerm -b nobody", normal=figures),
    # Messages.
    "sendMessage": row(
        f"updateTopic {NAMES} -t {{own}} -r 1 -w 1",
        "sendMessage -t {own} -p hi~there -k key1 -c tag1 -b broker-a -i 0",
        "sendMessage -t {own} -p hi~again -m true",
    ),
    "sendMsgStatus": row("sendMsgStatus -b broker-a -s 32 -c 2", normal=figures),
    "checkMsgSendRT": row("checkMsgSendRT -t {rt_topic} -a 2 -s 32", normal=figures),
    "clusterRT": row(
        r"@until DefaultCluster\s+broker-a\s+[\d.]+\s+\d clusterRT -a 2 -s 32 -c DefaultCluster -i 1",
        normal=figures,
    ),
    "queryMsgById": row(
        "queryMsgById -t {topic} -i {offset_id}",
        "queryMsgById -t {topic} -i {offset_id} -f UTF-8",
        "queryMsgById -t {topic} -i {far_offset_id}",
        "queryMsgById -t {topic} -i {offset_id} -g {group} -d {client}",
    ),
    "queryMsgByUniqueKey": row(
        "queryMsgByUniqueKey -t {topic} -i {id}",
        "queryMsgByUniqueKey -t {topic} -i {id} -a",
        "queryMsgByUniqueKey -t {topic} -i {id} -g {group} -d {client}",
    ),
    "queryMsgByKey": row(
        "queryMsgByKey -t {topic} -k {topic}_k1",
        "queryMsgByKey -t {topic} -k {topic}_k1 -b 0 -e 9999999999999 -m 8",
        "queryMsgByKey -t {topic} -k TagA -p T",
        "queryMsgByKey -t {topic} -k nobody",
    ),
    "queryMsgByOffset": row(
        "queryMsgByOffset -t {topic} -b broker-a -i 0 -o 1",
        "queryMsgByOffset -t {topic} -b broker-a -i 0 -o 100",
    ),
    "queryMsgTraceById": row(
        "queryMsgTraceById -i {traced_id}",
        "queryMsgTraceById -i 7F0000010000000000000000000000FF",
    ),
    "printMsg": row(
        "printMsg -t {topic} -d true", "printMsg -t {topic} -s TagB", "printMsg -t {topic} -b 0 -e 1"
    ),
    "printMsgByQueue": row(
        "printMsgByQueue -t {topic} -a broker-a -i 1 -p true -d true",
        "printMsgByQueue -t {topic} -a broker-a -i 0 -f true",
    ),
    "consumeMessage": row(
        "consumeMessage -t {topic} -g {own} -c 2 -b broker-a -i 0 -o 0",
        "consumeMessage -t {topic} -g {own} -c 4",
        "consumeMessage -t {topic} -g {own} -s 0 -e 9999999999999",
    ),
    "queryCq": row(
        "queryCq -b {broker} -t {topic} -q 0 -i 0 -c 3",
        "queryCq -b {broker} -t {topic} -q 0 -i 0 -c 3 -g {group}",
        "queryCq -b {broker} -t {topic} -q 7 -i 0",
    ),
    # Clients, and their progress.
    "producerConnection": row(
        "producerConnection -g {producer} -t {topic}", "producerConnection -g {own}none -t {topic}"
    ),
    "producer": row("producer -b {broker}", normal=distinct),
    "consumerConnection": row(
        "consumerConnection -g {group}",
        "consumerConnection -g {group} -b {broker}",
        "consumerConnection -g {own}none",
        "consumerConnection -g {gone}",
    ),
    "consumerProgress": row(
        "consumerProgress -g {group}",
        "consumerProgress -g {group} -s true",
        "consumerProgress -g {group} -t {topic}",
        "consumerProgress -g {gone}",
        "consumerProgress -g {own}none",
        normal=without_retries,
    ),
    "consumerStatus": row(
        "consumerStatus -g {group}",
        "consumerStatus -g {group} -i {client}",
        "consumerStatus -g {gone}",
        normal=figures,
    ),
    "cloneGroupOffset": row(
        "cloneGroupOffset -s {gone} -d {own} -t {topic}",
        "cloneGroupOffset -s {own}none -d {own} -t {topic}",
        "consumerProgress -g {own}",
        normal=figures,
    ),
    "resetOffsetByTime": row(
        "resetOffsetByTime -g {gone} -t {topic} -s 0",
        "resetOffsetByTime -g {gone} -t {topic} -s now",
        "resetOffsetByTime -g {gone} -t {topic} -s -1",
        "resetOffsetByTime -g {gone} -t {topic} -s 0 -b broker-a -q 0 -o 1",
        "resetOffsetByTime -g {gone} -t {topic} -s 0 -b broker-a -q 0 -o 1000",
        "resetOffsetByTime -g {gone} -t {own}none -s 0",
        "resetOffsetByTime -g {own}none -t {topic} -s 0",
    ),
    "skipAccumulatedMessage": row(
        "resetOffsetByTime -g {gone} -t {topic} -s 0",
        "skipAccumulatedMessage -g {gone} -t {topic}",
        "skipAccumulatedMessage -g {gone} -t {topic} -f true",
        "skipAccumulatedMessage -g {own}none -t {topic}",
    ),
    "setConsumeMode": row(
        f"setConsumeMode {NAMES} -t {{topic}} -g {{own}} -m POP -q 1",
        "setConsumeMode -b {broker} -t {topic} -g {own} -m PULL",
        "setConsumeMode -b {broker} -t {topic} -g {own} -m NEITHER",
        "setConsumeMode -b {broker} -t %RETRY%{own} -g {own} -m POP",
    ),
    # Figures.
    "brokerStatus": row(
        "brokerStatus -b {broker}",
        f"brokerStatus {NAMES}",
        normal=keys_only,
        but="unflushedBytes unflushedTimeMillis",
    ),
    "brokerConsumeStats": row(
        "brokerConsumeStats -b {broker}", "brokerConsumeStats -b {broker} -l 1000 -o true", normal=any_order
    ),
    "clusterList": row("clusterList", "clusterList -m", f"clusterList {NAMES}", normal=figures),
    # Not with -a: for an hour after its start, Apache's broker counts nothing as of the last 24 hours.
    "statsAll": row("statsAll -t {topic}", normal=loads, sampled=True),
    "resetMasterFlushOffset": row("resetMasterFlushOffset -b {broker} -o 1"),
    "haStatus": row("haStatus -b {broker}", f"haStatus {NAMES}", normal=figures),
    "exportConfigs": row(f"exportConfigs {NAMES} -f {{out}}"),
    "exportMetadata": row(
        f"exportMetadata {NAMES} -f {{out}}",
        "exportMetadata -b {broker} -f {out} -t",
        "exportMetadata -b {broker} -f {out} -g",
        "exportMetadata -b {broker} -f {out} -t -s",
    ),
    "exportMetrics": row(f"exportMetrics {NAMES} -f {{out}}"),
    # Cleaning.
    "cleanExpiredCQ": row("cleanExpiredCQ -b {broker}", "cleanExpiredCQ -c DefaultCluster", "cleanExpiredCQ"),
    "deleteExpiredCommitLog": row(
        "deleteExpiredCommitLog -b {broker}", "deleteExpiredCommitLog -c DefaultCluster"
    ),
    "cleanUnusedTopic": row("cleanUnusedTopic -b {broker}", "cleanUnusedTopic -c DefaultCluster"),
}
"""Command -> what is run and compared."""

_CONTROLLER = "it needs a controller; tests with controllers run it (`tests/peers/test_controller.py`)"
_CONTROLLER_REQUEST = "it needs a controller; its request is tested without mqadmin"
_AUTH = "users and access rules have tests of their own (`tests/peers`), with a broker that is guarded"
_CONTAINER = "a process of OrbitMQ holds one broker: there is no container"
_ROCKSDB = "OrbitMQ keeps nothing in RocksDB"
_STATIC = "static topics have tests of their own (`tests/peers/test_static_topics.py`), with two brokers"
_COLD = "cold reads run beside the event loop and hold nobody up, so that they need no limits per group"

LEFT_OUT: dict[str, str] = {
    "addBroker": _CONTAINER,
    "removeBroker": _CONTAINER,
    "startMonitoring": "it runs until it is killed; what it asks is compared by other rows",
    "updateStaticTopic": _STATIC,
    "remappingStaticTopic": _STATIC,
    "exportMetadataInRocksDB": _ROCKSDB,
    "rocksDBConfigToJson": _ROCKSDB,
    "checkRocksdbCqWriteProgress": _ROCKSDB,
    "exportPopRecord": _ROCKSDB,
    "switchTimerEngine": _ROCKSDB,
    "dumpCompactionLog": "it reads a local file of a compaction topic, of which there are none",
    "getSyncStateSet": _CONTROLLER_REQUEST,
    "getBrokerEpoch": _CONTROLLER_REQUEST,
    "getControllerMetaData": _CONTROLLER_REQUEST,
    "getControllerConfig": _CONTROLLER,
    "updateControllerConfig": _CONTROLLER,
    "electMaster": _CONTROLLER_REQUEST,
    "cleanBrokerMetadata": _CONTROLLER,
    "getColdDataFlowCtrInfo": _COLD,
    "updateColdDataFlowCtrGroupConfig": _COLD,
    "removeColdDataFlowCtrGroupConfig": _COLD,
    "setCommitLogReadAheadMode": "the log is read by `pread` in threads, which the switch is not about",
    **dict.fromkeys(("createUser", "updateUser", "deleteUser", "getUser", "listUser", "copyUser"), _AUTH),
    **dict.fromkeys(("createAcl", "updateAcl", "deleteAcl", "getAcl", "listAcl", "copyAcl"), _AUTH),
}
"""Command -> why it is not compared here."""
