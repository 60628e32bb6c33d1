"""Answers to slaves and operators about delay levels and timers."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.broker.delay.level_delivery import DelayDelivery
from orbitmq.broker.delay.timer import Timers
from orbitmq.broker.registry import handlers
from orbitmq.handling.call import Call
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.admin import GetTimerCheckPoint, GetTimerMetrics, SwitchTimerEngine
from orbitmq.protocol.requests.offset import GetAllDelayOffset
from orbitmq.protocol.schema.declare import Blob, Reply, Void
from orbitmq.store.option_rows import StoreSettings
from orbitmq.store.timer.check_point import TimerFields, encode_fields

FILE_WHEEL = "F"
ROCKSDB_TIMELINE = "R"


@dataclass(slots=True)
class DelayTables:
    """Tables that answers about delay levels look at."""

    delay: DelayDelivery


@dataclass(slots=True)
class TimerTables:
    """Tables that answers about timers look at."""

    settings: StoreSettings
    timer: Timers


@handlers(GetAllDelayOffset)
def get_all_delay_offset(tables: DelayTables, call: Call[GetAllDelayOffset], now: int) -> Reply:
    """Progress of the delay levels."""
    return Blob(tables.delay.to_body().to_json())


@handlers(GetTimerCheckPoint)
def get_timer_check_point(tables: TimerTables, call: Call[GetTimerCheckPoint], now: int) -> Reply:
    """Progress of timers, in 56 bytes."""
    if not tables.settings.timer_wheel_enable:
        raise Refused(ResponseCode.SYSTEM_ERROR, "The checkpoint is null")
    return Blob(body=encode_fields(tables.timer.fields() or TimerFields()))


@handlers(GetTimerMetrics)
def get_timer_metrics(tables: TimerTables, call: Call[GetTimerMetrics], now: int) -> Reply:
    """Number of waiting messages, by topic."""
    if not tables.settings.timer_wheel_enable:
        raise Refused(ResponseCode.SYSTEM_ERROR, "The timer message store is null")
    return Blob(body=tables.timer.metrics.to_body().to_json())


@handlers(SwitchTimerEngine)
def switch_timer_engine(tables: TimerTables, call: Call[SwitchTimerEngine], now: int) -> Reply:
    """The file wheel is the only engine: choosing it has it take messages in again."""
    engine = call.request.engine_type
    if not tables.settings.timer_wheel_enable:
        raise Refused(ResponseCode.INVALID_PARAMETER, "broker timerWheelEnable is false")
    if engine == ROCKSDB_TIMELINE:
        raise Refused(
            ResponseCode.INVALID_PARAMETER, "timers are kept in files: there is no RocksDB to switch to"
        )
    if engine != FILE_WHEEL:
        raise Refused(
            ResponseCode.INVALID_PARAMETER, f"param error: the timer engine {engine!r} is neither F nor R"
        )
    tables.settings.timer_stop_enqueue = False
    return Void(remark="switch timer engine success")
