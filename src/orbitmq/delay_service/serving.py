"""A delay service that starts and stops: clusters, store, sources, targets and the API put together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from orbitmq.delay_service.engine import Engine
from orbitmq.delay_service.errors import StoreFull
from orbitmq.delay_service.http.server import ApiServer
from orbitmq.delay_service.instances import InstanceLease
from orbitmq.delay_service.options import ClusterAt, DelaySettings
from orbitmq.delay_service.rules.ddmq_requests import ThriftCounts
from orbitmq.delay_service.rules.targets import WEBHOOK
from orbitmq.delay_service.sources.reading import SourceState
from orbitmq.delay_service.sources.writing import SourceWriter
from orbitmq.delay_service.store.store import DelayStore
from orbitmq.delay_service.targets.target import Cluster
from orbitmq.delay_service.targets.webhook import WebhookTarget
from orbitmq.delay_service.thrift.server import ThriftServer
from orbitmq.protocol.remoting.signing import Credentials
from orbitmq.server.lifecycle.private_folder import make_private
from orbitmq.server.metrics.health import STARTING, Health

log = logging.getLogger(__name__)

REOPEN_SECONDS = 5.0
"""Time after which a store is tried again that could not be written."""
LONGEST_PAUSE_SECONDS = 60.0
"""Between tries to make the topics for dead letters."""


class DelayServer:
    """A delay service that starts and stops, in the event loop of whoever started it."""

    def __init__(
        self,
        settings: DelaySettings,
        ready_file: Path | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        """With `credentials`, requests to all clusters of RocketMQ are signed by them."""
        self.settings = settings
        self._ready_file = ready_file
        self._failure: Exception | None = None
        self._on_failure: Callable[[], None] | None = None
        self.clusters: dict[str, ClusterAt] = settings.clusters
        if credentials is not None:
            self.clusters = {
                name: replace(one, access=replace(one.access, credentials=credentials))
                for name, one in self.clusters.items()
            }
        self.engine: Engine | None = None
        """None while a store that failed is not open again."""
        self.sources: list[Any] = []
        self.lease: InstanceLease | None = None
        """The part in a service with several instances; None if it stands alone."""
        self.writer = SourceWriter(self.clusters)
        self._problem = ""
        self._health = Health()
        self._targets: dict[str, Cluster] = {}
        self._task: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._api: ApiServer | None = None
        self.thrift: ThriftServer | None = None
        """The port for DDMQ's SDKs."""

    # Life.

    async def start(self) -> None:
        """Opens the store and begins. Raises StoreError, OptionError, ExtraMissing, CannotListen."""
        settings = self.settings
        _ = settings.known, settings.tokens
        if settings.delay_thrift:
            self.thrift = ThriftServer(self)
        self._targets = {name: new_target(one) for name, one in self.clusters.items()}
        # Messages to addresses that are no longer allowed wait there, too: they were accepted.
        self._targets[WEBHOOK] = WebhookTarget()
        if settings.store_address:
            lease = self.lease = InstanceLease(settings, self.writer, lambda: self.states)
            for target in self._targets.values():
                target.may_send = lambda: lease.term() > 0
        engine = self._new_engine()
        try:
            for target in self._targets.values():
                await target.start()
            host = settings.health_host or (settings.http_address or ("127.0.0.1", 0))[0]
            await self._health.listen(host, settings.health_port)
            if settings.delay_http:
                self._api = ApiServer(self)
                await self._api.start()
            if self.thrift is not None:
                await self.thrift.start()
        except BaseException:
            await self._end_ports()
            await self._health.close()
            await engine.stop()
            await self._close_targets()
            raise
        self.engine = engine
        self._task = asyncio.create_task(self._run(engine), name="delay service")
        self._health.why_not = self._why_not_ready

    def _new_engine(self) -> Engine:
        """Opens the store, in a folder of its owner alone if there is access control. Raises StoreError."""
        settings = self.settings
        signs = any(one.access.credentials or "sasl_mechanism" in one.kafka for one in self.clusters.values())
        if settings.delay_token_file or signs:
            make_private(settings.folder)
        return Engine(settings, DelayStore(settings.folder), self._targets, lease=self.lease)

    def stop_when_failed(self, stop: Callable[[], None]) -> None:
        """`stop` is called if the service cannot continue."""
        self._on_failure = stop

    def raise_failure(self) -> None:
        """Raises what ended the service, if it was not asked to stop."""
        if self._failure is not None:
            raise self._failure

    async def _run(self, engine: Engine) -> None:
        """Works until it is cancelled, or the store cannot be used any more."""
        try:
            await self._go_on(engine)
        except Exception as error:
            self._failure = error
            log.error("the service ends: %s", error)
            if self._on_failure is not None:
                self._on_failure()

    async def _go_on(self, engine: Engine) -> None:
        """Works; opens the store again after a write has failed."""
        while True:
            await self._work(engine)
            while True:
                await asyncio.sleep(REOPEN_SECONDS)
                try:
                    engine = self._new_engine()
                except StoreFull as error:
                    self._problem = str(error)
                    continue
                break
            self.engine, self._problem = engine, ""
            log.info("the store is open again")

    async def _work(self, engine: Engine) -> None:
        self.sources = self._new_sources(engine)
        tasks = [
            asyncio.create_task(_keep_reading(one), name=f"read {one.state.name}") for one in self.sources
        ]
        tasks.append(asyncio.create_task(self._ensure_topics(), name="make topics"))
        tasks.append(asyncio.create_task(self._look_whether_ready(), name="look whether ready"))
        engine.start()
        part = None
        if self.lease is not None and engine.turn is not None:
            part = asyncio.create_task(self.lease.run(engine.turn), name="take part")
        try:
            await asyncio.shield(engine.failed)
        except StoreFull as error:
            self._problem = str(error)
            log.error("%s; nothing is taken in or delivered until it can be written again", error)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.engine = None
            await engine.stop()
            if self.lease is not None and part is not None:
                part.cancel()
                await asyncio.gather(part, return_exceptions=True)
                await self.lease.stop()

    def _new_sources(self, engine: Engine) -> list[Any]:
        from orbitmq.delay_service.sources.kafka import KafkaSource
        from orbitmq.delay_service.sources.rocketmq import RocketSource

        settings = self.settings
        found: list[Any] = []
        for source, form in settings.forms.items():
            cluster = self.clusters[source.cluster]
            if cluster.is_kafka:
                found.append(
                    KafkaSource(
                        cluster,
                        source.topic,
                        engine,
                        partitions=settings.delay_queues,
                        make_topic=settings.delay_make_topics,
                        allow_create_time=settings.delay_allow_create_time,
                    )
                )
            else:
                found.append(
                    RocketSource(
                        cluster,
                        source.topic,
                        form,
                        engine,
                        queues=settings.delay_queues,
                        make_topic=settings.delay_make_topics,
                    )
                )
        return found

    async def _ensure_topics(self) -> None:
        """Makes the topics for dead letters, as soon as their clusters are there."""
        from orbitmq.delay_service.sources import kafka, rocketmq

        if not self.settings.delay_make_topics:
            return
        waiting = dict(self.clusters)
        pause = 1.0
        while waiting:
            for name, cluster in list(waiting.items()):
                ensure = kafka.ensure_topics if cluster.is_kafka else rocketmq.ensure_topics
                try:
                    await ensure(cluster, [self.settings.delay_dead_topic], self.settings.delay_queues)
                except Exception as error:
                    log.debug("the topic for dead letters of %s cannot be made yet: %s", name, error)
                else:
                    del waiting[name]
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

    async def _look_whether_ready(self) -> None:
        while not self.is_ready:  # noqa: ASYNC110 - many states of several tasks make it up
            await asyncio.sleep(0.05)
        self._ready.set()
        pending = self.engine.store.pending_count if self.engine is not None else 0
        line = f"ready: delay service, HTTP {self.address}, {pending} pending"
        log.info(line)
        if self._ready_file is not None:
            beside = self._ready_file.with_name(self._ready_file.name + ".tmp")
            beside.write_text(line + "\n")
            beside.replace(self._ready_file)

    async def stop(self) -> None:
        """Ends it in order: what is under way is delivered once."""
        self._health.stopping()
        if self._ready_file is not None:
            self._ready_file.unlink(missing_ok=True)
        await self._end_ports()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._close_targets()
        await self._health.close()

    async def _end_ports(self) -> None:
        for one in (self._api, self.thrift):
            if one is not None:
                await one.stop()

    async def _close_targets(self) -> None:
        closing = [self.writer.close(), *(one.close() for one in self._targets.values())]
        await asyncio.gather(*closing, return_exceptions=True)

    # Answers.

    @property
    def problem(self) -> str:
        """The reason why the store or the consensus store cannot be used; empty if all is well."""
        return self._problem or ("" if self.lease is None else self.lease.problem)

    def _why_not_ready(self) -> str:
        """The reason why it is not ready, empty if it is."""
        waiting = (f"{one.name}: {one.problem or 'not read yet'}" for one in self.states if not one.is_read)
        return "" if self.is_ready else self.problem or "; ".join(waiting) or STARTING

    @property
    def is_ready(self) -> bool:
        """True if every source has been read to the end that it had at the start."""
        return self.engine is not None and bool(self.sources) and all(s.state.is_read for s in self.sources)

    async def ready(self) -> None:
        """Returns when every source has been read once."""
        await self._ready.wait()

    @property
    def states(self) -> list[SourceState]:
        return [one.state for one in self.sources]

    @property
    def thrift_counts(self) -> ThriftCounts | None:
        """Counts of the thrift port; None without one."""
        return None if self.thrift is None else self.thrift.counts

    @property
    def address(self) -> str:
        """Address of the API, for people."""
        return self._api.address if self._api is not None else "none"


async def _keep_reading(source: Any) -> None:
    """Reads a source; an unexpected failure is logged, and reading starts over.

    A cancellation that a library lets out is such a failure.
    """
    task = asyncio.current_task()
    while True:
        try:
            await source.run()
        except (Exception, asyncio.CancelledError) as error:
            if task is not None and task.cancelling():
                raise
            log.exception("source %s", source.state.name)
            source.state.problem = f"{type(error).__name__}: {error}"
            await asyncio.sleep(REOPEN_SECONDS)


def new_target(cluster: ClusterAt) -> Cluster:
    """The target of a cluster. Raises ExtraMissing."""
    if cluster.is_kafka:
        from orbitmq.delay_service.targets.kafka import KafkaTarget

        return KafkaTarget(cluster)
    from orbitmq.delay_service.targets.rocketmq import RocketTarget

    return RocketTarget(cluster)
