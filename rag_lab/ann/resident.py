"""How much memory an index takes when it is read: by how much a fresh process grows that does nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from rag_lab.contracts import RagLabError

LIMIT_S = 600


def resident_bytes(path: Path) -> int:
    """Bytes by which a process grows when it reads the FAISS index in a file, to about a megabyte.

    Raises:
        RagLabError: the process failed, or took longer than `LIMIT_S` seconds.
    """
    command = [sys.executable, "-m", "rag_lab.ann.resident", str(path)]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=True)
        return int(ended.stdout)
    except (subprocess.SubprocessError, ValueError, OSError) as error:
        said = (str(getattr(error, "stderr", "") or "") or str(error)).strip().splitlines()[-1:]
        raise RagLabError(f"{path}: its memory cannot be measured ({''.join(said)}); run it again") from None


def resident_now() -> int:
    """Bytes of this process in memory, as Linux counts them."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def available_bytes() -> int:
    """Memory that Linux could give to new work, within the limit of the container."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    groups = Path("/sys/fs/cgroup")
    limit, used = (groups / "memory.max", groups / "memory.current")
    text = limit.read_text(encoding="ascii").strip() if limit.is_file() else ""
    return min(free, int(text) - int(used.read_text(encoding="ascii"))) if text.isdigit() else free


def main() -> None:
    """Read the index whose path is the only argument, and write by how much this process grew."""
    import faiss

    before = resident_now()
    index = faiss.read_index(sys.argv[1])
    grown = resident_now() - before
    sys.stdout.write(f"{max(0, grown) if index.ntotal else 0}\n")


if __name__ == "__main__":
    main()
