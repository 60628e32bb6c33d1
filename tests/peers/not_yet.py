"""Cases of the judge that OrbitMQ does not pass yet, by pattern, with what is missing."""

NOT_YET: dict[str, dict[str, str]] = {
    "remoting": {
        "pop_*": "POP consumption",
    },
    "guarded": {},
    "mqadmin": {
        "mq_setConsumeMode": "POP consumption",
    },
    "go4": {},
    "files": {},
}
