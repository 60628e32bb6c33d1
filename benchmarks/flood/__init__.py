"""Effects on others while a client misbehaves, and the fate of that client."""
