"""Compiles the hot modules (`*_cy.py`) where a C compiler works, and installs without them where none does.

The same files run interpreted, so a missing compiler costs speed and nothing else. `python -m
orbitmq.compiled` says which modules are compiled. ORBITMQ_COMPILE=0 never compiles; ORBITMQ_COMPILE=1
makes a module that does not compile an error (for those who build wheels). A wheel without compiled modules
is `py3-none-any`, a wheel with them names its Python and platform.
"""

from __future__ import annotations

import functools
import os
import re
import sys
import tempfile
import tomllib
from pathlib import Path

from setuptools import Distribution, Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import PlatformError

HERE = Path(__file__).parent
SOURCES = sorted(path.relative_to(HERE) for path in (HERE / "src").glob("orbitmq/**/*_cy.py"))
WANTED = os.environ.get("ORBITMQ_COMPILE", "")
SANITIZERS = [
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=undefined",
    "-fno-omit-frame-pointer",
    "-O1",
    "-g1",  # lines for reports: names of variables would take a third of the compiler's time
]
SANITIZED = SANITIZERS if os.environ.get("ORBITMQ_SANITIZE") == "1" else []
"""For `make asan` alone: such modules load only where the compiler's libasan does first."""
COMPILER_FLAGS = SANITIZED or ([] if sys.platform == "win32" or "CFLAGS" in os.environ else ["-g0"])
"""Debug information would take a third of the compiler's time, and make wheels five times as large. The
variable CFLAGS is for other builds: setuptools takes it instead of Python's own flags, -O3 among them."""


@functools.cache
def compiles() -> bool:
    """Tell whether hot modules are compiled here. Raises PlatformError where they have to be and cannot."""
    if WANTED == "0":
        why = "ORBITMQ_COMPILE=0"
    elif compiler_works():
        return True
    elif WANTED == "1":
        raise PlatformError("ORBITMQ_COMPILE=1, but no C compiler works here")
    else:
        why = "no C compiler works here"
    print(f"orbitmq: {why}: the hot modules stay interpreted", file=sys.stderr)
    return False


def compiler_works() -> bool:
    """Compile a probe against Python's headers."""
    from setuptools._distutils.ccompiler import new_compiler
    from setuptools._distutils.sysconfig import customize_compiler, get_python_inc

    compiler = new_compiler()
    customize_compiler(compiler)
    with tempfile.TemporaryDirectory() as folder:
        probe = Path(folder, "probe.c")
        probe.write_text("#include <Python.h>\nint orbitmq_probe(void) { return 0; }\n")
        includes = [get_python_inc(), get_python_inc(plat_specific=True)]
        try:
            compiler.compile([str(probe)], output_dir=folder, include_dirs=includes)
        except Exception as error:  # each compiler class fails in its own way
            print(f"orbitmq: {error}", file=sys.stderr)
            return False
    return True


class HotDistribution(Distribution):
    """A distribution that belongs to one platform only where its hot modules are compiled."""

    def has_ext_modules(self) -> bool:
        """Tell whether something is compiled: the tag of a wheel follows from it."""
        return bool(super().has_ext_modules()) and compiles()


class BuildHotModules(build_ext):
    """`build_ext` that removes what an earlier build left where nothing is compiled."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def run(self) -> None:
        if compiles():
            super().run()
            return
        for extension in self.extensions:
            # It would shadow the source.
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
            ".".join(path.relative_to("src").with_suffix("").parts),
            [path.as_posix()],
            optional=WANTED != "1",
            extra_compile_args=COMPILER_FLAGS,
            extra_link_args=SANITIZED[:1],
        )
        for path in SOURCES
    ]
    if not compiles():
        return extensions
    made: list[Extension] = cythonize(  # type: ignore[no-untyped-call]
        extensions, build_dir="build/cython", include_path=["src"], language_level=3, quiet=True
    )
    return made


def readme() -> str:
    """The README for package indexes, which have no files: links into the repository become addresses."""
    project = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    source = project["urls"]["Source"]
    text = (HERE / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"(!\[[^]]*\]\()(?!https?:)", rf"\1{source}/raw/main/", text)
    return re.sub(r"((?<!!)\[[^]]*\]\()(?!https?:|#)", rf"\1{source}/blob/main/", text)


setup(
    distclass=HotDistribution,
    ext_modules=hot_modules(),
    cmdclass={"build_ext": BuildHotModules},
    long_description=readme(),
    long_description_content_type="text/markdown",
)
