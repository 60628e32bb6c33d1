"""The table of handled messages as a model."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from orbitmq.idempotence.keys import MAX_KEY_CHARACTERS
from orbitmq.idempotence.rows import TABLE


class HandledMessage(models.Model):
    """One handled message. `id` is a digest of scope and key."""

    id: models.CharField[str, str] = models.CharField(max_length=64, primary_key=True)
    consumer_group: models.CharField[str, str] = models.CharField(max_length=MAX_KEY_CHARACTERS)
    topic: models.CharField[str, str] = models.CharField(max_length=MAX_KEY_CHARACTERS)
    handler: models.CharField[str, str] = models.CharField(max_length=MAX_KEY_CHARACTERS)
    message_key: models.CharField[str, str] = models.CharField(max_length=MAX_KEY_CHARACTERS)
    message_id: models.CharField[str, str] = models.CharField(max_length=MAX_KEY_CHARACTERS)
    fingerprint: models.CharField[str, str] = models.CharField(max_length=64)
    result: models.TextField[str | None, str | None] = models.TextField(null=True)
    done_at_ms: models.BigIntegerField[int, int] = models.BigIntegerField()

    class Meta:
        """The table."""

        app_label = "orbitmq_idempotence"
        db_table = TABLE
        indexes: ClassVar = [models.Index(fields=["done_at_ms"], name="ix_orbitmq_handled_done_at_ms")]

    def __str__(self) -> str:
        return f"{self.message_key} of {self.topic}"
