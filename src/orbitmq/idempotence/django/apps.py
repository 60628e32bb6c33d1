"""The app."""

from __future__ import annotations

from django.apps import AppConfig


class IdempotenceConfig(AppConfig):
    """The app of the table of handled messages."""

    name = "orbitmq.idempotence.django"
    label = "orbitmq_idempotence"
    verbose_name = "Handled messages"
