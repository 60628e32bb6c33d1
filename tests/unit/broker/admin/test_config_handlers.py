from dataclasses import dataclass

from orbitmq.broker.config import BrokerConfig
from orbitmq.handling.call import Saved
from orbitmq.options.declare import Settings, option
from orbitmq.options.table import OptionTable
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.requests.admin import GetBrokerConfig, UpdateBrokerConfig
from tests.kit.world import NOW, World


@dataclass(kw_only=True)
class Few(Settings):
    delete_when: str = option("04", "when", mutable=True)
    file_reserved_time: int = option(72, "how long", mutable=True, minimum=1)
    broker_permission: int = option(6, "what", mutable=True)
    store_path_root_dir: str = option("/store", "where")


def world() -> World:
    world = World()
    world.config = BrokerConfig(OptionTable(Few), Few(), world.dirty_tables, NOW)
    return world


def test_every_option_with_the_version_of_them_all() -> None:
    reply = world().ask(GetBrokerConfig())
    lines = bytes(reply.body).decode().splitlines()
    assert lines == sorted(lines)
    assert "fileReservedTime=72" in lines
    assert '"counter":0' in reply.version


def test_a_change_holds_at_once() -> None:
    broker = world()
    broker.ask(UpdateBrokerConfig(b"deleteWhen=05\n"))
    assert broker.config.settings.delete_when == "05"
    assert broker.config.version.counter == 1
    assert broker.last_wait is not None
    assert broker.last_wait.on == (Saved("config"),)
    broker.dirty_tables.drain_all()
    broker.ask(UpdateBrokerConfig(b"deleteWhen=05\n"))
    assert broker.config.version.counter == 1


def test_the_file_is_written_with_what_changed() -> None:
    broker = world()
    broker.ask(UpdateBrokerConfig(b"deleteWhen=05\n"))
    assert broker.config.rewrite()(b"# mine\ndeleteWhen=04\n") == "# mine\ndeleteWhen=05\n"


def test_who_holds_copies_of_values_follows() -> None:
    broker = World()
    store = Few()
    broker.config = BrokerConfig(OptionTable(Few), Few(), broker.dirty_tables, NOW, store)
    broker.ask(UpdateBrokerConfig(b"fileReservedTime=71\n"))
    assert store.file_reserved_time == 71


def test_one_wrong_option_and_nothing_changes() -> None:
    broker = world()
    for body, code in (
        (b"deleteWhen=05\nconfigBlackList=x\n", ResponseCode.NO_PERMISSION),
        (b"deleteWhen=05\nstorePathRootDir=/elsewhere\n", ResponseCode.NO_PERMISSION),
        (b"deleteWhen=05\nfileReservedTime=soon\n", ResponseCode.INVALID_PARAMETER),
        (b"deleteWhen=05\nfileReservedTime=0\n", ResponseCode.INVALID_PARAMETER),
        (b"deleteWhen=05\ndeletewhen=06\n", ResponseCode.INVALID_PARAMETER),
        (b"a=" + b"x" * 70_000, ResponseCode.INVALID_PARAMETER),
    ):
        assert broker.refusal(UpdateBrokerConfig(body)).code == code
    assert broker.config.settings.delete_when == "04"
    refused = broker.refusal(UpdateBrokerConfig(b"deletWhen=05\n"))
    assert refused.remark == "update: unknown option deletWhen; did you mean deleteWhen?"
    refused = broker.refusal(UpdateBrokerConfig(b"brokerConfigPath=/x\n"))
    assert refused.remark == "Can not update config in black list."


def test_a_change_of_permission_is_told_to_the_name_servers() -> None:
    broker = world()
    broker.topics.ensure("T", 1, NOW)
    broker.topics.drain_changed()
    broker.ask(UpdateBrokerConfig(b"brokerPermission=4\n"))
    assert broker.topics.drain_changed() == {"T"}
