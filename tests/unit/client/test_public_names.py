"""`import orbitmq` gives everything, and loads nothing until it is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

import orbitmq
from orbitmq import client, sync


@pytest.mark.parametrize("name", orbitmq.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(orbitmq, name) is not None
    assert name in dir(orbitmq)


def test_what_the_client_offers_is_what_the_root_and_the_blocking_face_offer() -> None:
    # Options are for those who write functions over them; the rest is what applications need.
    special = {"BatchHandler", "ClientOptions", "ConsumerOptions", "Handler", "ProducerOptions", "serve"}
    assert set(client.__all__) - special <= set(orbitmq.__all__)
    both_faces = {"AsyncDelayClient", "DelayClient"}  # each has a name of its own in the package
    assert set(client.__all__) - special - both_faces == set(sync.__all__) - {"Admin"}


def test_a_misspelt_name_is_an_error() -> None:
    with pytest.raises(AttributeError, match="Producre"):
        orbitmq.Producre  # noqa: B018


def test_importing_the_package_imports_no_event_loop() -> None:
    program = "import sys, orbitmq; sys.exit(bool({'asyncio', 'ssl', 'orbitmq.client'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
