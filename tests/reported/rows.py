"""Public reports about other brokers, clients and sources, what is right, and the tests that show it here.

Each row is a line of `docs/trust/reported.md`. A report is named as `owner/repository#number`.
"""

from __future__ import annotations

from dataclasses import dataclass

BROKER = "apache/rocketmq"
APACHE = "5.5.0"
"""The release of Apache's broker that was tried by hand (`by_hand.py`, and `test_clients.py` against it)."""
AS_REPORTED = "as reported; not tried"
NOT_ITS = "not about it"
"""The report is about a client or a source, not about the broker."""
OURS_WORKS = f"{APACHE}, tried: our client does the same with it"


@dataclass(frozen=True, slots=True)
class Row:
    """Reports of one behaviour."""

    reports: tuple[str, ...]
    behaviour: str
    tests: tuple[str, ...]
    """Node ids of pytest, without parameters."""
    apache: str = NOT_ITS
    """What is known of Apache's broker."""


def _here(module: str, *names: str) -> tuple[str, ...]:
    return tuple(f"tests/reported/test_{module}.py::test_{name}" for name in names)


def _unit(module: str, *names: str) -> tuple[str, ...]:
    return tuple(f"tests/unit/{module}.py::test_{name}" for name in names)


def _rules(module: str, *names: str) -> tuple[str, ...]:
    return _unit(f"delay_service/rules/test_{module}", *names)


def _delay(module: str, *names: str) -> tuple[str, ...]:
    return tuple(f"tests/delay/test_{module}.py::test_{name}" for name in names)


SUBJECTS: dict[str, tuple[Row, ...]] = {
    "Timers": (
        Row(
            (f"{BROKER}#10668",),
            "After a log was cut, no timer stands for a foreign record.",
            (
                *_unit(
                    "broker/delay/test_timer_truncation", "a_waiting_message_that_was_cut_off_never_comes"
                ),
                *_unit(
                    "broker/delay/test_timer_restarts",
                    "a_unit_whose_message_was_lost_never_stands_for_another_one",
                ),
            ),
            f"{APACHE}, tried on a log cut by hand: holds, timers behind its end were passed over",
        ),
        Row(
            (f"{BROKER}#7480",),
            "Timers go on though their check point was beyond the end of a log that was cut.",
            _here("timers", "timers_go_on_though_their_check_point_is_behind_the_end_of_a_log_that_was_cut"),
            f"{APACHE}, tried on a log cut by hand: holds, timers sent afterwards came",
        ),
        Row(
            (f"{BROKER}#10019",),
            "Recalled messages leave the counts of those that wait.",
            _here("timers", "recalled_messages_leave_the_counts_of_those_that_wait"),
            f"{APACHE}, tried: holds, the gauge was 0 once all were due",
        ),
        Row(
            ("celery/celery#2599", "celery/celery#7009", "celery/kombu#337"),
            "A message for later waits in the broker and comes once, whenever the broker ends.",
            _unit("broker/delay/test_timer_restarts", "every_message_comes_once_whenever_the_broker_ends"),
        ),
    ),
    "Delay services": (
        Row(
            ("apache/pulsar#26103", "qunarcorp/qmq#177"),
            "A burst that came due while the service was down holds up no other target, nor does a dead one.",
            (
                *_rules("delivery", "a_burst_due_before_the_start_starves_no_other_target"),
                *_rules("delivery", "one_dead_target_holds_up_nobody"),
                *_delay("faults", "a_target_that_was_away_gets_its_messages_in_order_and_no_other_waits"),
            ),
        ),
        Row(
            ("apache/pulsar#16763", "apache/pulsar#15146", "rabbitmq/rabbitmq-delayed-message-exchange#72"),
            "However many messages wait, a start, a delivery and a cancel read and remember as much.",
            _rules("many_waiting", "neither_a_start_nor_a_delivery_nor_a_cancel_looks_at_what_waits"),
        ),
        Row(
            ("apache/pulsar#26230",),
            "Everything that is pending is delivered, whatever is killed: the store alone says what is.",
            ("tests/fault/test_delay_service.py::test_kills",),
        ),
        Row(
            ("apache/pulsar#22716",),
            "Messages far away stay so after a start.",
            _delay("rocketmq", "a_service_goes_on_where_it_was"),
        ),
        Row(
            ("apache/pulsar#11180", "apache/pulsar#23907", "apache/pulsar#21173"),
            "A message is cancelled and moved by its name, and the answer says whether that was in time.",
            (
                *_rules("intake", "a_cancel_in_time_and_one_too_late", "a_move_keeps_the_message"),
                *_delay("rocketmq", "the_client_schedules_moves_and_cancels"),
            ),
        ),
        Row(
            ("apache/pulsar#25310",),
            "A span counts from the time at which the broker stored its order, not by the sender's clock.",
            _rules("orders", "a_span_counts_from_the_store_time"),
        ),
        Row(
            (f"{BROKER}#6984",),
            "A crash repeats only what was on its way.",
            (
                "tests/fault/test_delay_service.py::test_kills",
                *_delay("faults", "kills_lose_nothing_and_repeat_only_what_was_on_its_way"),
            ),
        ),
        Row(
            ("citusdata/pg_cron#105", "node-schedule/node-schedule#431"),
            "A clock that is set back is followed at once, a jump forward once it has lasted.",
            _rules(
                "clock",
                "a_clock_that_is_set_back_is_followed_at_once",
                "a_jump_forward_is_followed_once_it_has_lasted",
            ),
        ),
    ),
    "Pops and retries": (
        Row(
            (f"{BROKER}#10736",),
            "An acknowledgement is final, also while check points leave memory.",
            _here("pops", "an_acknowledgement_is_final_while_check_points_leave_memory"),
            f"{APACHE}, tried: not seen, 400 acknowledgements at chance moments were final",
        ),
        Row(
            (f"{BROKER}#10667",),
            "A message comes again though its first revival could not be stored.",
            _here("pops", "a_message_comes_again_though_its_first_revival_could_not_be_stored"),
            f"{APACHE}, tried with records too large meanwhile: holds, it came 11 s afterwards",
        ),
        Row(
            (f"{BROKER}#10827",),
            "An ordered pop that is repeated with its attempt id gets the same batch.",
            _unit("broker/pop/test_order", "the_same_attempt_gets_its_batch_again"),
            f"{APACHE}, tried: 2 of 20 repetitions beside another pop got nothing",
        ),
        Row(
            ("ag2ai/faststream#1488",),
            "A message that fails as often as it may becomes a dead letter.",
            _unit("broker/retry/test_handlers", "a_message_delivered_often_enough_becomes_a_dead_letter"),
        ),
    ),
    "Transactions": (
        Row(
            (f"{BROKER}#10199",),
            "A committed message is published once, however late the record of its end is.",
            _unit(
                "broker/transaction/test_recovery",
                "a_commit_that_a_crash_cut_off_from_its_op_record_counts",
            ),
            f"{APACHE}, tried, checks after 1 s: 233 of 300 committed messages came more than once",
        ),
        Row(
            (f"{BROKER}#9500",),
            "An unreadable half message holds up no other.",
            _here("transactions", "an_unreadable_half_message_holds_up_no_other"),
            f"{APACHE}, tried: holds, the others were asked about and published",
        ),
        Row(
            (f"{BROKER}#10260", f"{BROKER}#10261"),
            "A half message with a delay is refused, by brokers and by the gRPC proxy.",
            (
                *_unit("broker/transaction/test_rerouting", "a_half_message_cannot_be_delayed"),
                *_unit("proxy/test_messages", "a_message_of_a_transaction_that_is_delayed_is_refused"),
            ),
            f"{APACHE}, tried: a half message with a time of delivery is taken over gRPC",
        ),
        Row(
            (f"{BROKER}#8311",),
            "Rounds within the immunity time do not count as checks.",
            _here("transactions", "rounds_within_the_immunity_time_do_not_count_as_checks"),
            f"{APACHE}, tried: immune for 8 s, three checks, one each second: not asked once in 25 s",
        ),
        Row(
            ("apache/rocketmq-client-python#161",),
            "Sixteen threads share one producer of transactions.",
            _here("clients", "threads_share_a_producer_of_transactions"),
            OURS_WORKS,
        ),
    ),
    "Replication, controllers, rights": (
        Row(
            (f"{BROKER}#10666",),
            "What was cut off a log is not recovered after a crash.",
            _unit(
                "store/replica/test_truncation",
                "every_crash_amid_a_truncation_leaves_all_of_the_log_or_the_cut_one",
            ),
            f"{AS_REPORTED}: a slave would have to be killed between its cut and the next message",
        ),
        Row(
            (f"{BROKER}#11045",),
            "The late end of an old connection takes no broker that has come again.",
            _here("controllers", "the_late_end_of_an_old_connection_takes_no_broker_that_has_come_again"),
            f"{APACHE}, tried: a controller on DLedger elects another master, one on jRaft does not",
        ),
        Row(
            (f"{BROKER}#11182", f"{BROKER}#10997"),
            "Each request is judged by itself, those that name a record or a half message, too.",
            _unit(
                "broker/auth/test_every_request",
                "a_user_without_rights_gets_nothing_and_changes_nothing",
                "rights_to_ones_own_are_none_to_what_is_somebody_elses",
            ),
            f"{APACHE}, tried: a user without any right is shown a record by its offset",
        ),
    ),
    "Proxy and lite topics": (
        Row(
            (f"{BROKER}#11049",),
            "A send of several messages over gRPC is answered with a receipt for each.",
            (
                "tests/proxy/test_service.py::test_every_message_of_a_batch_has_its_receipt_and_is_received_once",
            ),
            f"{APACHE}, tried: three messages in one send have one receipt",
        ),
        Row(
            (f"{BROKER}#10768",),
            "A route over gRPC shows the queues of all brokers that are known, though one is not.",
            _unit("proxy/test_rules", "one_broker_without_a_master_does_not_hide_the_others"),
            f"{APACHE}, tried: such a route is answered with an internal error and no queue",
        ),
        Row(
            (f"{BROKER}#9583",),
            "A message whose invisible time was changed is acknowledged by its new handle.",
            (
                "tests/proxy/test_service.py::"
                "test_a_message_whose_invisible_time_was_changed_is_acknowledged_by_its_new_handle",
            ),
            f"{APACHE}, tried: holds, where nothing is renewed meanwhile",
        ),
        Row(
            (f"{BROKER}#11191",),
            "Each message of a lite topic comes, whatever is popped and acknowledged meanwhile.",
            _unit(
                "broker/lite/test_handlers",
                "whatever_clients_do_each_message_comes_in_order_and_none_is_lost",
            ),
            f"{APACHE}, tried: not seen, 200 lite topics at chance moments stood still nowhere",
        ),
    ),
    "Clients": (
        Row(
            ("apache/rocketmq-clients#1331",),
            "A consumer that is full again and again keeps its stack and its tasks.",
            _here("clients", "a_consumer_that_is_full_again_and_again_keeps_its_stack_and_its_tasks"),
            OURS_WORKS,
        ),
        Row(
            ("apache/rocketmq-clients#1189",),
            "A start returns, with an error if no name server answers, on event loops of every kind.",
            _here(
                "clients",
                "a_start_returns_on_loops_with_other_selectors",
                "a_start_without_a_name_server_is_an_error_within_its_time",
            ),
            OURS_WORKS,
        ),
        Row(
            ("apache/rocketmq-client-python#134",),
            "A running consumer lives though nobody refers to it.",
            _here("clients", "a_running_consumer_lives_though_nobody_refers_to_it"),
            OURS_WORKS,
        ),
        Row(
            ("confluentinc/confluent-kafka-python#2167",),
            "Refused messages with properties leave no memory behind, after the close neither.",
            _here("clients", "refused_messages_with_properties_leave_no_memory_behind"),
            OURS_WORKS,
        ),
        Row(
            ("aio-libs/aiokafka#983",),
            "A consumer whose inner tasks are cancelled says so and goes on.",
            _unit(
                "client/consumer/test_cancelled_from_outside",
                "a_consumer_whose_tasks_are_all_cancelled_says_so_and_goes_on",
            ),
        ),
        Row(
            ("mosquito/aio-pika#231", "mosquito/aio-pika#563", "mosquito/aio-pika#632"),
            "A consumer consumes again after its broker has died or was started again.",
            (
                "tests/client/test_restarts.py::test_producer_and_consumer_go_on_after_a_death",
                "tests/client/test_restarts.py::test_a_stream_lasts_through_an_orderly_restart",
            ),
        ),
        Row(
            ("mosquito/aio-pika#432",),
            "A close amid a reconnect, and a loop that ends without one, leave no task.",
            (
                *_here("clients", "a_close_amid_a_reconnect_leaves_no_task"),
                *_unit(
                    "client/consumer/test_cancelled_from_outside",
                    "a_loop_that_ends_with_clients_in_it_leaves_no_task_pending",
                ),
            ),
        ),
        Row(
            ("ag2ai/faststream#2999",),
            "A handler that is cancelled at the end has acknowledged nothing: the message comes again.",
            _here("clients", "a_handler_that_is_cancelled_at_the_end_has_acknowledged_nothing"),
            OURS_WORKS,
        ),
        Row(
            ("ag2ai/faststream#1648", "apache/rocketmq-clients#816"),
            "At SIGTERM handlers end, and what they handled is acknowledged, before connections close.",
            ("tests/client/test_workers.py::test_a_signal_lets_handlers_end_and_commits",),
        ),
        Row(
            ("dpkp/kafka-python#2422", "dpkp/kafka-python#1716"),
            "A queue stays with its member however long a handler takes.",
            _unit(
                "client/consumer/test_slow_and_failing_handlers",
                "a_queue_is_kept_however_long_its_handlers_take",
            ),
        ),
    ),
    "Spark": (
        Row(
            ("apache/spark#54237",),
            "Batches follow each other without a gap: a start is the end of the batch before.",
            _unit("spark/stream/test_following", "batches_follow_each_other_without_a_gap"),
        ),
        Row(
            ("apache/spark#53001", "apache/spark#54085"),
            "Limits of a batch and AvailableNow hold, also from a checkpoint on.",
            ("tests/spark/test_streaming.py::test_available_now_within_limits_and_on_from_the_checkpoint",),
        ),
        Row(
            ("astrolabsoftware/fink-broker#819",),
            "A topic of many times an executor's memory goes through it.",
            ("tests/spark/test_memory.py::test_a_topic_of_ten_times_its_memory_goes_through_an_executor",),
        ),
        Row(
            ("mozilla/telemetry-streaming#25",),
            "What retention took from a stream is data loss: an error, or counted.",
            _unit("spark/stream/test_following", "retention_took_what_was_planned"),
        ),
        Row(
            ("byzer-org/byzer-lang#1242",),
            "The rule of data loss is the same for a batch.",
            _unit("spark/read/test_planning", "offsets_that_are_gone"),
        ),
        Row(
            ("apache/spark#31089",),
            "A topic that was made anew is data loss, and not silence.",
            _unit("spark/stream/test_following", "a_topic_made_anew_is_data_loss"),
        ),
        Row(
            ("apache/spark#46692",),
            "Queues that come are read from their beginning, those that go are data loss.",
            _unit(
                "spark/stream/test_following",
                "a_new_queue_is_read_from_its_beginning",
                "a_queue_that_its_broker_no_longer_has_is_data_loss",
            ),
        ),
        Row(
            ("apache/hudi#8376", "apache/spark#47927", "apache/rocketmq-flink#76"),
            "One hot queue is split among tasks, and each offset is read by one of them.",
            _unit("spark/read/test_planning", "splitting_covers_every_offset_once"),
        ),
        Row(
            ("AbsaOSS/hyperdrive#240",),
            "A task of the sink that died is carried on, and sends no row twice.",
            ("tests/spark/test_sink_once.py::test_a_task_that_died_is_carried_on",),
        ),
        Row(
            ("apache/seatunnel#9940", "apache/seatunnel#10752"),
            "A query goes on from its checkpoint, whatever its options say of the start.",
            _here("spark_streams", "a_checkpoint_counts_whatever_the_options_say_of_the_start"),
        ),
        Row(
            ("apache/seatunnel#12099",),
            "A stop in the middle of a question is quiet and leaves no thread.",
            _here("spark_streams", "a_stop_in_the_middle_of_a_question_is_quiet_and_leaves_no_thread"),
        ),
    ),
}


def markdown() -> str:
    """The tables of the page."""
    parts = []
    for subject, rows in SUBJECTS.items():
        head = "| report | behaviour | OrbitMQ | Apache's broker |"
        lines = [f"### {subject}", "", head, "| --- | --- | --- | --- |"]
        for row in rows:
            reports = ", ".join(_link(report) for report in row.reports)
            modules = dict.fromkeys(test.partition("::")[0] for test in row.tests)
            tests = ", ".join(f"[test](../../{module})" for module in modules)
            lines.append(f"| {reports} | {row.behaviour} | holds: {tests} | {row.apache} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _link(report: str) -> str:
    repository, _, number = report.partition("#")
    return f"[{report}](https://github.com/{repository}/issues/{number})"
