"""What a second run costs: ``rag-lab run experiments/scifact.yaml`` twice in new processes, first with an empty store.

The whole command is timed: start of Python, results, report and MLflow. Needs SciFact under RAG_LAB_DATA, or a network.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EXPERIMENT = Path(__file__).parent.parent / "scifact.yaml"


def seconds(home: str) -> float:
    """Wall-clock time of one run."""
    command = [sys.executable, "-m", "rag_lab", "run", str(EXPERIMENT), "--out", "out"]
    started = time.perf_counter()
    subprocess.run(command, check=True, cwd=home, env={**os.environ, "RAG_LAB_HOME": home}, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> None:
    """Print both times and their ratio."""
    with tempfile.TemporaryDirectory() as home:
        first, second = seconds(home), seconds(home)
    print(f"first run {first:.1f} s, second run {second:.1f} s: {second / first:.1%} of the first")


if __name__ == "__main__":
    main()
