"""Makes the table."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    """The first form of the table."""

    initial = True
    dependencies: ClassVar[list[Any]] = []
    operations: ClassVar[list[Any]] = [
        migrations.CreateModel(
            name="HandledMessage",
            fields=[
                ("id", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("consumer_group", models.CharField(max_length=255)),
                ("topic", models.CharField(max_length=255)),
                ("handler", models.CharField(max_length=255)),
                ("message_key", models.CharField(max_length=255)),
                ("message_id", models.CharField(max_length=255)),
                ("fingerprint", models.CharField(max_length=64)),
                ("result", models.TextField(null=True)),
                ("done_at_ms", models.BigIntegerField()),
            ],
            options={
                "db_table": "orbitmq_handled_messages",
                "indexes": [models.Index(fields=["done_at_ms"], name="ix_orbitmq_handled_done_at_ms")],
            },
        ),
    ]
