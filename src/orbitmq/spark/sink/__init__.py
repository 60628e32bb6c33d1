"""Data frames into topics: `df.write.format("orbitmq")` and `df.writeStream.format("orbitmq")`.

A task sends the rows of its partition in protocol batches, one under way per queue. With `idempotent` every
message carries who it is (write, batch, partition, row), and a batch that Spark runs again sends only what
the brokers do not hold yet: see `identity` for what that stands on, and `seen` for how it is found out.
"""
