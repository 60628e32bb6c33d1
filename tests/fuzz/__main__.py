"""`python -m tests.fuzz [TARGET …] --for 3600`: coverage-guided fuzzing, one target after another.

Findings are in tests/fuzz/found/TARGET: kept there it is tried by every run of the suite. The corpus
grows in `--corpus`, so that a later run goes on where this one ended; `--keep` makes a small one of it in
tests/fuzz/corpus.
Targets are parsers, each a function of bytes, and the episodes of `tests.fuzz.compiled` (`episode-sends`),
which make their choices by the input.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fuzz.guided import GUIDED
from tests.fuzz.kept import keep
from tests.fuzz.targets import TARGETS
from tests.kit.environments import without_sanitizers

FOUND = Path(__file__).parent / "found"


def fuzz(
    name: str, seconds: float, corpus: Path, found: Path, *, seed: int = 0, capture: bool = False
) -> subprocess.CompletedProcess[str]:
    """One fuzzer for so long, or until it finds something: then its exit code is not 0.

    A `seed` of 0 is another one each time.
    """
    options = [f"-max_total_time={seconds:.0f}", f"-seed={seed}", "-print_final_stats=1"]
    return _child(name, found, str(corpus / name), options, capture)


def _child(
    name: str, found: Path, corpus: str, options: list[str], capture: bool
) -> subprocess.CompletedProcess[str]:
    # Guided modules run interpreted: a sanitizer would only keep their memory for long.
    limits = ["-timeout=60", "-rss_limit_mb=1500", "-malloc_limit_mb=512", "-max_len=70000", "-verbosity=0"]
    return subprocess.run(
        [sys.executable, "-m", "tests.fuzz.child", name, str(found / name), corpus, *options, *limits],
        check=False,
        text=True,
        capture_output=capture,
        env=without_sanitizers(),
    )


def minimise(name: str, corpus: Path, found: Path) -> int:
    """Keeps the inputs of a corpus that reach what others do not, the smallest first; gives their number."""
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder, "small")
        done = _child(name, found, f"{corpus / name}:{small}", ["-merge=1"], capture=True)
        if done.returncode:
            raise SystemExit(f"{name}: {done.stderr[-2000:]}")
        return keep(name, (path.read_bytes() for path in small.iterdir()))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    every = [*TARGETS, *GUIDED]
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(every)}")
    parser.add_argument("--for", dest="seconds", type=float, default=60.0, help="seconds in all")
    parser.add_argument("--corpus", type=Path, default=Path("build/fuzz-corpus"))
    parser.add_argument("--keep", action="store_true", help="make tests/fuzz/corpus of --corpus")
    given = parser.parse_args()
    names = given.targets or every
    if unknown := set(names) - set(every):
        parser.error(f"no such target: {', '.join(sorted(unknown))}; there are {', '.join(every)}")
    if given.keep:
        for name in names:
            print(f"{name}: {minimise(name, given.corpus, FOUND)} inputs are kept", flush=True)
        return 0
    failed = []
    for name in names:
        print(f"=== {name}", flush=True)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        if fuzz(name, max(1.0, given.seconds / len(names)), given.corpus, FOUND).returncode:
            failed.append(name)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(f"{name}: {cpu / 60:.1f} CPU minutes", flush=True)
    print(f"found something in: {', '.join(failed) or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
