"""Compiles the hot modules (`*_cy.py`) where a C compiler works, and installs without them where none does.

The same files run interpreted, so a missing compiler costs speed and nothing else. `python -m
orbitmq.compiled` says which modules are compiled. ORBITMQ_COMPILE=0 never compiles; ORBITMQ_COMPILE=1
makes a module that does not compile an error (for those who build wheels).
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import PlatformError

HERE = Path(__file__).parent
SOURCES = sorted(path.relative_to(HERE) for path in (HERE / "src").glob("orbitmq/**/*_cy.py"))
WANTED = os.environ.get("ORBITMQ_COMPILE", "")


class BuildHotModules(build_ext):
    """`build_ext` that first asks whether there is a compiler at all."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def run(self) -> None:
        if WANTED == "0":
            self._do_without("ORBITMQ_COMPILE=0")
        elif not self._compiler_works():
            if WANTED == "1":
                raise PlatformError("ORBITMQ_COMPILE=1, but no C compiler works here")
            self._do_without("no C compiler works here")
        else:
            super().run()

    def _compiler_works(self) -> bool:
        from setuptools._distutils.ccompiler import new_compiler
        from setuptools._distutils.sysconfig import customize_compiler

        compiler = new_compiler(compiler=self.compiler)
        customize_compiler(compiler)
        with tempfile.TemporaryDirectory() as folder:
            probe = Path(folder, "probe.c")
            probe.write_text("#include <Python.h>\nint orbitmq_probe(void) { return 0; }\n")
            try:
                compiler.compile([str(probe)], output_dir=folder, include_dirs=self.include_dirs)
            except Exception as error:  # each compiler class fails in its own way
                print(f"orbitmq: {error}", file=sys.stderr)
                return False
        return True

    def _do_without(self, why: str) -> None:
        print(f"orbitmq: {why}: the hot modules stay interpreted", file=sys.stderr)
        # What an earlier build left would shadow the sources.
        for extension in self.extensions:
            Path(self.get_ext_fullpath(extension.name)).unlink(missing_ok=True)
        self.extensions = []


def hot_modules() -> list[Extension]:
    """One optional extension per hot module, or none where Cython is missing."""
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    extensions = [
        Extension(
            ".".join(path.relative_to("src").with_suffix("").parts), [path.as_posix()], optional=WANTED != "1"
        )
        for path in SOURCES
    ]
    made: list[Extension] = cythonize(  # type: ignore[no-untyped-call]
        extensions, build_dir="build/cython", include_path=["src"], language_level=3, quiet=True
    )
    return made


setup(ext_modules=hot_modules(), cmdclass={"build_ext": BuildHotModules})
