"""Lists the hot modules (`*_cy.py`) that run compiled: `python -m orbitmq.compiled`.

With `--expect all` the exit code is 1 unless every one is compiled, with `--expect none` if any is.
"""

from __future__ import annotations

import argparse
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

ROOT = Path(__file__).parent


def hot_modules() -> dict[str, Path | None]:
    """Each hot module by its full name, with the compiled file Python takes for it, or None.

    Nothing is imported: an extension module beside its source wins over it by Python's own rule.
    """
    found: dict[str, Path | None] = {}
    for source in sorted(ROOT.rglob("*_cy.py")):
        name = ".".join(("orbitmq", *source.relative_to(ROOT).with_suffix("").parts))
        beside = (source.with_name(source.stem + suffix) for suffix in EXTENSION_SUFFIXES)
        found[name] = next((path for path in beside if path.exists()), None)
    return found


def stale_modules() -> list[Path]:
    """Compiled files that are older than their source, and so run what the source no longer says."""
    stale = []
    for compiled in hot_modules().values():
        if compiled is not None:
            source = compiled.with_name(compiled.name.partition(".")[0] + ".py")
            if compiled.stat().st_mtime < source.stat().st_mtime:
                stale.append(compiled)
    return stale


def main(arguments: list[str] | None = None) -> int:
    """The command; the exit code says whether the expectation holds."""
    parser = argparse.ArgumentParser(
        prog="python -m orbitmq.compiled", description="Which hot modules run compiled."
    )
    parser.add_argument("--expect", choices=["all", "none"], help="fail unless it is so")
    expected = parser.parse_args(arguments).expect
    modules = hot_modules()
    for name, compiled in modules.items():
        print(f"{'compiled' if compiled else 'interpreted':<12} {name}")
    count = sum(compiled is not None for compiled in modules.values())
    print(f"{count} of {len(modules)} hot modules are compiled")
    if expected == "all":
        return 0 if count == len(modules) > 0 else 1
    return 1 if expected == "none" and count else 0


if __name__ == "__main__":
    sys.exit(main())
