"""Broker, name server and clients in one thread, on a virtual clock, network and disk.

The servers are the real ones: they are given a loop whose time jumps to whatever comes next, transports that
are queues in memory, and a disk that knows what was synced. One seed decides everything that is left to
chance, so a run can be repeated. `loop`, `network` and `disk` are the three pieces; `cluster` puts them
together.
"""
