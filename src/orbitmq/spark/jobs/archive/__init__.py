"""`orbitmq job archive`: topics to a lake that holds every message once, whatever crashes meanwhile.

The driver asks brokers for the ends of the queues, takes the next stretch of each behind what the lake holds,
and lets the workers pull it and write it as Parquet, Arrow from the socket to the file. Files that they wrote
count when the driver commits them: one manifest names the offsets and the files, and it is the only check
point there is. A crash before it leaves files without a name; a crash after it, files that get their place
at the next start.
"""
