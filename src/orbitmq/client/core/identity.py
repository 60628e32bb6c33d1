"""Identity of a client: its address, the id that brokers know it by, and the ids of the messages it sends."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import time
from ipaddress import ip_address

from orbitmq.net.address import parse_address
from orbitmq.protocol.records.ids import UniqueIds

LOOPBACK = "127.0.0.1"


def local_ip(towards: str) -> str:
    """The address of this machine by which it reaches `towards` (`host:port`); nothing is sent for it."""
    host, port = parse_address(towards)
    try:
        for family, kind, _, _, remote in socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM):
            with socket.socket(family, kind) as probe:
                probe.connect(remote)
                return str(probe.getsockname()[0]).partition("%")[0]
    except OSError:
        pass
    return LOOPBACK


async def own_ip(towards: str) -> str:
    """The same without making others wait while a host name is looked up."""
    host, _ = parse_address(towards)
    try:
        ip_address(host)
    except ValueError:
        return await asyncio.to_thread(local_ip, towards)
    return local_ip(towards)


def client_id(ip: str, instance_name: str | None) -> str:
    """`ip@instance`; without a name the instance is process id and nanoseconds of a steady clock."""
    return f"{ip}@{instance_name or f'{os.getpid()}#{time.perf_counter_ns()}'}"


def unique_ids(ip: str) -> UniqueIds:
    """The maker of message ids of one sender in this process."""
    return UniqueIds(ip_address(ip).packed, os.getpid(), random.getrandbits(32))
