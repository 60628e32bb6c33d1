import subprocess
import sys

import pytest


@pytest.mark.nightly  # a JVM of its own
def test_a_job_starts_spark_without_noise() -> None:
    """In a process of its own: a JVM that runs already has said what it says."""
    script = """
from orbitmq.spark.jobs.job import JobSetup
with JobSetup(master="local[1]").session("quiet") as spark:
    print(spark.range(3).count())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr
    assert done.stderr == ""
