"""Cases of the judge that OrbitMQ does not pass yet, by pattern, with what is missing."""

NOT_YET: dict[str, dict[str, str]] = {
    "remoting": {
        "acl_*": "access control",
        "tls_permissive": "TLS",
        "filter_sql92*": "SQL92 filters",
        "tx_*": "transactions",
        "timer_*": "timer messages",
        "pop_*": "POP consumption",
        "message_trace": "message traces",
        "admin_broker_config": "changing the broker's configuration while it runs",
    },
    "mqadmin": {
        "mq_setConsumeMode": "POP consumption",
        "mq_brokerConfig": "changing the broker's configuration while it runs",
    },
    "go4": {"go4_transaction": "transactions", "go4_sql_filter": "SQL92 filters"},
    "files": {"files_open_transaction_checked": "transactions"},
}
