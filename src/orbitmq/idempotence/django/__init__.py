"""The store for Django: an app (`orbitmq.idempotence.django` in INSTALLED_APPS) with one table.

from orbitmq.idempotence import DjangoStore, once

@once(DjangoStore(), key="transferId")
def transfer(message: ReceivedMessage) -> None:
    Account.objects.filter(pk=...).update(...)
"""
