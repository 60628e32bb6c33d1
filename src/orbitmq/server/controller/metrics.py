"""The metrics of a controller, on `/metrics` of its health port. Names without `orbitmq_` are Apache's."""

from __future__ import annotations

from orbitmq.broker.stats.metric_families import COUNTER, GAUGE, Family
from orbitmq.controller.controller import Controller
from orbitmq.server.metrics.exposition import (
    OPEN_METRICS_TYPE,
    TEXT_TYPE,
    Exposition,
    wants_open_metrics,
)
from orbitmq.server.metrics.http import HttpRequest, HttpResponse

LEADER, FOLLOWER = 3, 2
"""Values of the metric `role`, as Apache's controllers give them."""
MAX_SAMPLES = 10_000
"""Samples of one metric; what comes beyond is added up in one more."""
COMMON_LABELS = ("address", "group", "peer_id")

CONTROLLER_FAMILIES = {
    family.name: family
    for family in (
        Family("role", GAUGE, "3 while this controller leads, 2 while it does not."),
        Family("active_broker_num", GAUGE, "Living brokers of a group.", ("cluster", "broker_set")),
        Family("election_total", COUNTER, "Attempts to elect a master, by result.", ("election_result",)),
        Family("orbitmq_controller_store_down", GAUGE, "1 while the consensus store cannot be used, else 0."),
        Family(
            "orbitmq_broker_group_has_master",
            GAUGE,
            "1 while the master of a group lives, else 0; reported by the leading controller.",
            ("cluster", "broker_set"),
        ),
        Family(
            "orbitmq_broker_group_in_sync",
            GAUGE,
            "In-sync replicas of a group, the master included.",
            ("cluster", "broker_set"),
        ),
        Family(
            "orbitmq_broker_group_master_id",
            GAUGE,
            "Id of the broker that was elected last, 0 while a group has no master.",
            ("cluster", "broker_set"),
        ),
        Family(
            "orbitmq_broker_group_last_outage_ms",
            GAUGE,
            "Time that a group was without a master before its last election.",
            ("cluster", "broker_set"),
        ),
        Family(
            "orbitmq_broker_group_unclean_lost_bytes",
            GAUGE,
            "Bytes that the unclean elections among a group's last ones have cost.",
            ("cluster", "broker_set"),
        ),
        Family(
            "orbitmq_broker_group_master_epoch",
            GAUGE,
            "Elections that a group has had so far: its master epoch.",
            ("cluster", "broker_set"),
        ),
    )
}


class ControllerMetrics:
    """Samples of one controller. `store_down` is set while the consensus store cannot be used."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self.store_down = False

    def text(self, *, open_metrics: bool) -> bytes:
        """All samples as Prometheus reads them."""
        controller, own = self._controller, self._controller.leadership
        common = {"address": own.own_address, "group": own.group, "peer_id": own.own_id}
        exposition = Exposition(common, MAX_SAMPLES, CONTROLLER_FAMILIES)
        exposition.add("role", (), LEADER if own.leads else FOLLOWER)
        exposition.add("orbitmq_controller_store_down", (), int(self.store_down))
        for result, count in controller.groups.elections_by_result.items():
            exposition.add("election_total", (result,), count)
        for group in controller.groups:
            labels = (group.cluster, group.name)
            living = len(controller.live.of_group(group.name))
            has_master = controller.groups.is_live(group, group.master_id)
            exposition.add("active_broker_num", labels, living)
            exposition.add("orbitmq_broker_group_has_master", labels, int(has_master))
            exposition.add("orbitmq_broker_group_in_sync", labels, len(group.sync_state_set))
            exposition.add("orbitmq_broker_group_master_id", labels, group.master_id or 0)
            outage_ms = group.elections[-1].without_master_ms if group.elections else 0
            exposition.add("orbitmq_broker_group_last_outage_ms", labels, outage_ms)
            lost = sum(max(0, one.lost_bytes) for one in group.elections)
            exposition.add("orbitmq_broker_group_unclean_lost_bytes", labels, lost)
            exposition.add("orbitmq_broker_group_master_epoch", labels, group.master_epoch)
        return exposition.text(open_metrics=open_metrics)

    def page(self, request: HttpRequest) -> HttpResponse:
        open_metrics = wants_open_metrics(request.headers.get("accept", ""))
        return HttpResponse(
            body=self.text(open_metrics=open_metrics),
            content_type=OPEN_METRICS_TYPE if open_metrics else TEXT_TYPE,
        )
