"""All rows of one kind of server: names to rows, layers to settings, updates at run time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Generic, TypeVar

from orbitmq.options.declare import Settings, declared
from orbitmq.options.errors import NotAtRunTime, UnknownOption
from orbitmq.options.option import Option, Status, Value, to_text
from orbitmq.options.sources import Layer

S = TypeVar("S", bound=Settings)

HIDDEN = "******"
"""Text that is shown in the place of a secret."""


class OptionTable(Generic[S]):
    """The rows of a settings class and those that no code reads, each property once."""

    def __init__(self, settings: type[S], *others: Iterable[Option]) -> None:
        self._settings = settings
        read = declared(settings)
        self.rows: tuple[Option, ...] = (*read, *(row for rows in others for row in rows))
        self._by_name: dict[str, Option] = {}
        self._declared = {row.name for row in read}
        for row in self.rows:
            for name in dict.fromkeys((row.name, row.key)):
                if name in self._by_name:
                    raise TypeError(f"two rows for {name}")
                self._by_name[name] = row

    def find(self, name: str) -> Option | None:
        """The row with a name: Apache's property, or the key of Python and TOML."""
        return self._by_name.get(name)

    def has(self, name: str) -> bool:
        return name in self._by_name

    @property
    def names(self) -> list[str]:
        return [row.name for row in self.rows]

    def load(self, layers: Sequence[Layer]) -> S:
        """Settings from layers, the weakest first. Raises OptionError for the first thing that is wrong."""
        settings = self._settings()
        for layer in layers:
            for name, raw in layer.values.items():
                row = self._by_name.get(name)
                if row is None:
                    if layer.lenient:
                        continue
                    raise UnknownOption(name, layer.place(name), self.names)
                self._put(settings, row, row.parse(raw, layer.place(name)))
                settings.sources[row.name] = layer.place(name)
        settings.complete()
        return settings

    def _put(self, settings: S, row: Option, value: Value) -> None:
        if row.name in self._declared:
            setattr(settings, row.key, value)
        else:
            settings.unused[row.name] = value

    def value(self, settings: S, row: Option) -> Value:
        if row.name in self._declared:
            held: Value = getattr(settings, row.key)
            return held
        return settings.unused.get(row.name, row.default)

    def set_without_effect(self, settings: S) -> list[Option]:
        """The rows that somebody set and that change nothing: what one warning at the start lists."""
        return [
            row
            for row in self.rows
            if row.status is Status.NO_EFFECT
            and row.name in settings.sources
            and self.value(settings, row) not in (row.default, "" if row.default is None else row.default)
        ]

    def changed(self, settings: S) -> dict[str, str]:
        """The options that were set and differ from their defaults, as text by name; secrets are hidden."""
        return {
            row.name: HIDDEN if row.secret else to_text(self.value(settings, row))
            for row in self.rows
            if row.name in settings.sources and self.value(settings, row) != row.default
        }

    def as_properties(self, settings: S, *, hidden: str | None = HIDDEN) -> dict[str, str]:
        """Every property and its value as text, sorted: what GET_BROKER_CONFIG answers.

        Properties of which there is no value are left out, as Java leaves out null. In the place of a secret
        stands `hidden`; None leaves secrets out, for files that are read again.
        """
        found: dict[str, str] = {}
        for row in self.rows:
            value = self.value(settings, row)
            shown = hidden if row.secret else to_text(value)
            if value is not None and shown is not None:
                found[row.name] = shown
        return dict(sorted(found.items()))

    def apply_update(self, settings: S, properties: Mapping[str, str], black_list: str = "") -> list[str]:
        """Changes settings while the process runs; gives the properties whose value is another one now.

        All or nothing: NotAtRunTime if a name is on the black list (names with `;` between) or can only be
        set at a start, UnknownOption for a name that no option has (Apache passes it over, and whoever wrote
        it believes that it holds), InvalidValue or RefusedValue for a value.
        """
        forbidden = {name for name in black_list.split(";") if name}
        black = [name for name in properties if name in forbidden]
        if black:
            raise NotAtRunTime(black, "on the black list of updates")
        wanted = {}
        fixed = []
        for name, text in properties.items():
            row = self._by_name.get(name)
            if row is None:
                raise UnknownOption(name, "update", self.names)
            value = row.parse(text, "update")
            if value == self.value(settings, row):
                continue
            if not row.mutable:
                fixed.append(row.name)
            wanted[row.name] = (row, value)
        if fixed:
            raise NotAtRunTime(fixed, "can be changed by a start only")
        trial = copy(settings)
        trial.unused = dict(settings.unused)
        for row, value in wanted.values():
            self._put(trial, row, value)
        trial.complete()
        trial = copy(settings)
        trial.unused, trial.sources = dict(settings.unused), dict(settings.sources)
        for row, value in wanted.values():
            self._put(trial, row, value)
            trial.sources[row.name] = "update"
        trial.complete()
        for row, value in wanted.values():
            self._put(settings, row, value)
        return list(wanted)
