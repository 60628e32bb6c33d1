"""Options: rows, the sources values come from, and what they become."""

from orbitmq.options.declare import Long as Long
from orbitmq.options.declare import Settings as Settings
from orbitmq.options.declare import declared as declared
from orbitmq.options.declare import option as option
from orbitmq.options.errors import InvalidValue as InvalidValue
from orbitmq.options.errors import NotAtRunTime as NotAtRunTime
from orbitmq.options.errors import OptionError as OptionError
from orbitmq.options.errors import RefusedValue as RefusedValue
from orbitmq.options.errors import UnknownOption as UnknownOption
from orbitmq.options.errors import UnreadableSource as UnreadableSource
from orbitmq.options.option import Option as Option
from orbitmq.options.option import Status as Status
from orbitmq.options.option import Value as Value
from orbitmq.options.sources import Layer as Layer
from orbitmq.options.sources import from_assignments as from_assignments
from orbitmq.options.sources import from_environment as from_environment
from orbitmq.options.sources import read_file as read_file
from orbitmq.options.table import OptionTable as OptionTable
