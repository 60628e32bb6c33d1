"""Replication over sockets: the HA port of a master, a slave's connections to its master."""
