"""The rules of the name server: its route table, KV configuration and handlers."""
