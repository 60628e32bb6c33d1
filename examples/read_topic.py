from orbitmq.spark import local_session

spark = local_session("orders")
orders = spark.read.format("orbitmq").option("subscribe", "orders").load()
orders.selectExpr("queueId", "queueOffset", "keys", "cast(body as string) as body").show()
