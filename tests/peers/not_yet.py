"""Cases of the judge that OrbitMQ does not pass yet, by pattern, with what is missing."""

NOT_YET: dict[str, dict[str, str]] = {
    "remoting": {
        "acl_*": "access control",
        "tls_permissive": "TLS",
        "filter_sql92*": "SQL92 filters",
        "tx_*": "transactions",
        "timer_*": "timer messages",
        "pop_*": "POP consumption",
        "request_reply": "request and reply",
        "message_trace": "message traces",
        "namespace": "namespaces",
        "clone_group_offset": "cloning a group's offsets",
        "reset_offset_*": "resetting offsets",
        "lite_pull_from_timestamp": "lite pull from a time",
        "admin_running_info": "running info of consumers",
        "admin_subscription_and_timespan": "consume time spans",
        "admin_broker_config": "changing the broker's configuration while it runs",
        "orderly_suspend_retries_in_place": "suspending an ordered queue",
    },
    "mqadmin": {
        "mq_cloneGroupOffset": "cloning a group's offsets",
        "mq_setConsumeMode": "POP consumption",
        "mq_queryCq": "looking into consume queues over the network",
        "mq_export": "exporting configuration and metrics",
        "mq_haStatus_cleaning": "replication, and cleaning on demand",
        "mq_resetOffsetByTime": "resetting offsets",
        "mq_brokerConfig": "changing the broker's configuration while it runs",
        "mq_consumerConnection": "running info of consumers",
    },
    "go4": {"go4_transaction": "transactions", "go4_sql_filter": "SQL92 filters"},
    "files": {"files_open_transaction_checked": "transactions"},
}
