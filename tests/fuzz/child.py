"""One fuzzer: `python -m tests.fuzz.child TARGET FOUND CORPUS[:INTO] [libFuzzer's options]`.

With INTO and `-merge=1` those inputs of CORPUS go there which together reach as much. libFuzzer starts itself
for that; such a child has `-` for CORPUS, and all folders and options behind it.

OrbitMQ is imported with its branches counted. The hot modules run interpreted here, for counted branches are
Python's; what is found is tried compiled as well by `test_fuzz.py`.
"""

from __future__ import annotations

import importlib.util
import itertools
import logging
import shlex
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import atheris

from tests.fuzz.kept import kept


class _Interpreted(MetaPathFinder):
    """Finds the source of a hot module, though a compiled one lies beside it."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not (name.startswith("orbitmq.") and name.endswith("_cy")):
            return None
        # The parent's own path: a search by its bare name would find others of that name, such as `queue`.
        places = path or sys.modules[name.rpartition(".")[0]].__path__
        source = Path(next(iter(places))) / f"{name.rpartition('.')[2]}.py"
        return importlib.util.spec_from_loader(name, SourceFileLoader(name, str(source)))


def _all(targets: dict[str, Any]) -> Any:
    """All targets as one: the first byte of an input tells which."""
    every = list(targets.values())

    def run(data: bytes) -> None:
        if data:
            every[data[0] % len(every)].run(data[1:])

    def seeds() -> Iterator[bytes]:
        for number, target in enumerate(every):
            for seed in itertools.islice(target.seeds(), 12):
                yield bytes([number]) + seed

    return type(every[0])(run, seeds)


def main() -> None:
    """Does not return: libFuzzer ends the process."""
    name, found, corpus, *options = sys.argv[1:]
    logging.disable(logging.CRITICAL)
    with atheris.instrument_imports(include=["orbitmq"], enable_loader_override=False):
        # Behind atheris' own finder, which asks those behind it.
        ours = next(i for i, one in enumerate(sys.meta_path) if type(one).__module__.startswith("atheris"))
        sys.meta_path.insert(ours + 1, _Interpreted())
        from tests.fuzz.guided import GUIDED
        from tests.fuzz.targets import TARGETS
    target = TARGETS.get(name) or GUIDED.get(name) or _all(TARGETS)
    if corpus == "-":
        atheris.Setup([sys.argv[0], *options], target.run)
        atheris.Fuzz()
    corpus, _, into = corpus.partition(":")
    folder = Path(corpus)
    folder.mkdir(parents=True, exist_ok=True)
    Path(found).mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds()):
        (folder / f"seed-{number}").write_bytes(seed)
    for number, data in enumerate(kept(name)):
        (folder / f"kept-{number}").write_bytes(data)
    own = sys.argv[0]
    if into:
        Path(into).mkdir()
        own = f"{into}.sh"
        command = [sys.executable, "-m", "tests.fuzz.child", name, found, "-"]
        Path(own).write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        Path(own).chmod(0o700)
    folders = [into, corpus] if into else [corpus]
    atheris.Setup([own, *folders, f"-artifact_prefix={found}/", *options], target.run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
