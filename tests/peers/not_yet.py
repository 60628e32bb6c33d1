"""Cases of the judge that OrbitMQ does not pass yet, by pattern, with what is missing."""

NOT_YET: dict[str, dict[str, str]] = {
    "remoting": {
        "acl_*": "access control",
        "tls_permissive": "TLS",
        "timer_*": "timer messages",
        "pop_*": "POP consumption",
    },
    "mqadmin": {
        "mq_setConsumeMode": "POP consumption",
    },
    "go4": {},
    "files": {"files_open_transaction_checked": "transactions"},
}
