"""Cases of the judge that OrbitMQ does not pass yet, by pattern, with what is missing."""

NOT_YET: dict[str, dict[str, str]] = {
    "remoting": {},
    "guarded": {},
    "mqadmin": {},
    "proxied": {},
    "go4": {},
    "grpc": {},
    "go5": {},
    "python": {},
    "files": {},
}
