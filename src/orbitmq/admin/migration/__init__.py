"""Moving a live cluster from Apache RocketMQ to OrbitMQ, or back, one broker group after the other.

`checks` says what stands in the way; `plan` lists the steps; `switching` changes
the master of a group, with a `journal` that outlives its process.
"""
