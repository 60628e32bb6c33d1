"""Cases of the judge that OrbitMQ does not pass yet, by pattern, with what is missing."""

NOT_YET: dict[str, dict[str, str]] = {
    "remoting": {
        "acl_*": "access control",
        "tls_permissive": "TLS",
        "filter_sql92*": "SQL92 filters",
        "timer_*": "timer messages",
        "pop_*": "POP consumption",
    },
    "mqadmin": {
        "mq_setConsumeMode": "POP consumption",
    },
    "go4": {"go4_sql_filter": "SQL92 filters"},
    "files": {"files_open_transaction_checked": "transactions"},
}
