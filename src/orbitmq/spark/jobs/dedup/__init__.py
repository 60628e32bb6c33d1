"""`orbitmq job dedup`: topics without repeats into another topic or a lake, and an audit that finds repeats.

Spark keeps which keys were seen in the checkpoint and on the disks of its workers (RocksDB). A job that was
killed is started again with the same checkpoint and repeats the batch that was under way: a lake holds it
once by Spark's own log of files, a topic because each message is known by its key and its batch, and is sent
only where no broker holds it.

`running` passes messages on; `ownership` refuses checkpoints and lakes of another job; `repeats` is the
audit; `tables` has the data frames of both; `command` is the command line.
"""
