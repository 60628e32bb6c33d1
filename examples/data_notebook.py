"""A notebook on topics in Spark, from messages to charts: run it as it is, or cell by cell in an editor.

    python examples/data_notebook.py

It starts a broker of its own, and leaves a page with charts: data_notebook.html.
"""

# %% A broker, and a Spark session. Any other broker does as well: only the address matters.
from pyspark.sql import functions as sf

from orbitmq import FIRST_OFFSET, Message, Producer, PushConsumer, ReceivedMessage
from orbitmq.cli.app import run as orbitmq
from orbitmq.spark import decoded, local_session
from orbitmq.testing import LocalBroker

broker = LocalBroker(own_process=True, timeout_seconds=120).start()
orbitmq(["admin", "topic", "create", "orders", "--queues", "4", "--namesrv", broker.namesrv])
spark = local_session("notebook")
cluster = {"namesrv": broker.namesrv}

# %% Orders come in, as messages with a JSON body. A row is a message.
orders = spark.range(5000).select(
    sf.to_json(
        sf.struct(
            "id",
            sf.element_at(
                sf.array(*map(sf.lit, ["tea", "rice", "salt"])), (sf.col("id") % 3 + 1).cast("int")
            ).alias("item"),
            (sf.pmod(sf.hash("id"), sf.lit(5000)) / 100).alias("amount"),
        )
    ).alias("body"),
    sf.concat(sf.lit("o-"), "id").alias("keys"),
    sf.when(sf.col("id") % 4 == 0, "gift").otherwise("plain").alias("tags"),
)
orders.write.format("orbitmq").options(**cluster, topic="orders").mode("append").save()

# %% The topic as a table, with the body's fields as columns.
topic = spark.read.format("orbitmq").options(**cluster, subscribe="orders").load()
table = decoded(topic, "id bigint, item string, amount double").select("value.*", "tags", "storeTimestamp")
by_item = (
    table.groupBy("item").agg(sf.count("*").alias("orders"), sf.sum("amount").alias("sum")).orderBy("item")
)
by_item.show()

# %% The same as a stream: what is new comes into a folder, each message once, whenever this cell is run.
checkpoint = f"{broker.data_dir}/notebook/checkpoint"
lake = f"{broker.data_dir}/notebook/orders"
stream = spark.readStream.format("orbitmq").options(**cluster, subscribe="orders", startingOffsets="earliest")
query = (
    stream.load()
    .writeStream.format("parquet")
    .option("checkpointLocation", checkpoint)
    .trigger(availableNow=True)
    .start(lake)
)
query.awaitTermination()
print(f"in the folder: {spark.read.parquet(lake).count()}")

# %% And without the broker: its files hold the same messages.
stored = spark.read.format("orbitmq").option("subscribe", "orders").load(str(broker.data_dir))
print(f"in the files:  {stored.count()}")

# %% Somebody handles gifts, with message trace on. In a notebook: `await handle_gifts()`.
import asyncio  # noqa: E402


async def handle_gifts(count: int = 60) -> None:
    """Sends gifts and handles them, some more slowly than others."""
    done = asyncio.Event()
    handled = 0

    async def handle(message: ReceivedMessage) -> None:
        nonlocal handled
        await asyncio.sleep(0.02 if handled % 10 else 0.1)
        handled += 1
        if handled >= count:
            done.set()

    async with Producer("shop", broker.namesrv, trace=True) as producer:
        for number in range(count):
            await producer.send(Message("gifts", f"gift {number}", keys=f"g-{number}"))
        consumer = PushConsumer("packing", broker.namesrv, trace=True, consume_from_where=FIRST_OFFSET)
        consumer.subscribe("gifts", "*", handle)
        async with consumer:
            await done.wait()


asyncio.run(handle_gifts())

# %% What became of them: the trace as tables.
from orbitmq.spark.jobs import trace_tables  # noqa: E402
from orbitmq.spark.jobs.trace_records import records  # noqa: E402

traces = spark.read.format("orbitmq").options(**cluster, subscribe="RMQ_SYS_TRACE_TOPIC").load()
trace = trace_tables.distinct(records(traces)).cache()
sends = trace_tables.sends(trace)
handled = trace_tables.with_topics(trace_tables.handlings(trace), sends)
latency = trace_tables.latency(handled)
latency.select("topic", "clientGroup", "messages", "handled", "endToEndP50Ms", "endToEndP99Ms").show()
trace_tables.life(trace, "g-7").select("at", "what", "clientGroup").show(truncate=False)

# %% Charts. In a notebook: `IPython.display.HTML(page.html())`.
from orbitmq.spark.jobs.report import Report  # noqa: E402

page = Report("Orders and gifts", about="What the notebook found.")
sums = by_item.collect()
page.heading("Orders").frame(by_item)
page.bars("Sum of orders", [row["item"] for row in sums], [row["sum"] for row in sums], "money")
page.heading("Gifts, from sent to packed").frame(latency)
times = trace_tables.latency_over_time(handled, seconds=1).collect()
page.line(
    "Latency of gifts by when they were sent",
    [row["at"] for row in times],
    {
        "half of them": [row["endToEndP50Ms"] for row in times],
        "99 %": [row["endToEndP99Ms"] for row in times],
    },
    "ms",
    "UTC",
)
print(f"charts: {page.write('data_notebook.html')}")

# %% The end.
spark.stop()
broker.stop()
