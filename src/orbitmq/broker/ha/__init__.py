"""Replication within a broker group: the rules of master and slave, without sockets and clocks."""
