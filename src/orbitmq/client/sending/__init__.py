"""One send with its checks, queue choice and retries."""
