"""The hot modules without the `cython` package: interpreted, with the shim in its place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import orbitmq

SOURCES = Path(orbitmq.__file__).parent.parent

PROGRAM = """
import sys
sys.modules["cython"] = None  # importing it fails
import importlib
import importlib.util
from importlib.machinery import SourceFileLoader
from pathlib import Path

root = Path(sys.argv[1])
for path in sorted(root.glob("orbitmq/**/*_cy.py")):
    name = ".".join(path.relative_to(root).with_suffix("").parts)
    if name.startswith("orbitmq.spark") and importlib.util.find_spec("pyarrow") is None:
        continue
    # As Python does before it loads a module: its package may import the module itself.
    importlib.import_module(name.rpartition(".")[0])
    # Past a compiled module that may stand beside it.
    spec = importlib.util.spec_from_file_location(name, path, loader=SourceFileLoader(name, str(path)))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    if hasattr(module, "cython"):  # a module whose C types are all in its .pxd does without
        assert module.cython.__name__ == "orbitmq._cython_shim", name
        assert not module.cython.compiled
    print(name)
"""


def test_every_hot_module_runs_without_the_package() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(SOURCES)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "orbitmq.protocol.records.message_cy" in done.stdout.split()
