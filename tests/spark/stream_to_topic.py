"""A driver of its own: streams text files to a topic, once each, until there is no file left."""

from __future__ import annotations

import sys


def main(namesrv: str, files: str, topic: str, checkpoint: str, counts_file: str) -> None:
    from orbitmq.spark import local_session

    spark = local_session("stream to topic", conf={"spark.log.level": "ERROR"})
    query = (
        spark.readStream.option("maxFilesPerTrigger", 1)
        .text(files)
        .writeStream.format("orbitmq")
        .option("namesrv", namesrv)
        .option("topic", topic)
        .option("idempotent", "true")
        .option("batchSize", "8")
        # Slow enough to be ended between the first message of a batch and its commit.
        .option("maxMessagesPerSecondPerTask", "200")
        .option("countsFile", counts_file)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
