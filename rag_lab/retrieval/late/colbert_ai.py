"""What colbert-ai needs to be used safely: its import, its C++ extensions, and its `Searcher` over an index of ours.

colbert-ai compiles extensions when it is first used without an accelerator, which takes about a minute. torch guards
that with a file, ``lock``; where a process was killed meanwhile the file stays, and everybody who comes later waits for
ever. It is stale when no process holds it open.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Any

from rag_lab.contracts import RagLabError

EXTENSIONS = ("segmented_maxsim_cpp", "filter_pids_cpp", "decompress_residuals_cpp", "segmented_lookup_cpp")
# Where it cannot be seen who holds a file, a lock is stale when nothing in its folder changed for so long.
STALE_SECONDS = 600
PROCESSES = Path("/proc")

_patching = RLock()


@contextmanager
def colbert_imported() -> Iterator[None]:
    """Within, colbert-ai can be imported and used; afterwards other code starts processes as it did before."""
    method = multiprocessing.get_start_method(allow_none=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        multiprocessing.set_start_method(method, force=True)


@contextmanager
def without_extensions() -> Iterator[None]:
    """Within, a model is loaded without compiling what only colbert-ai's own search needs."""
    from colbert.modeling.colbert import ColBERT

    with _patching:
        loads = ColBERT.__dict__["try_load_torch_extensions"]
        ColBERT.try_load_torch_extensions = staticmethod(lambda _use_gpu: None)
        try:
            yield
        finally:
            ColBERT.try_load_torch_extensions = loads


def open_searcher(folder: Path, checkpoint: str, say: Callable[[str], None]) -> Any:
    """colbert-ai's `Searcher` over a folder that `LateIndex.save` wrote (its part ``plaid``).

    `say` is told when something is compiled, once a machine. Raises `RagLabError` when there is no compiler.
    """
    with colbert_imported():
        from colbert import Searcher

        _check_tools()
        missing = [name for name in EXTENSIONS if not _built(name)]
        if missing:
            say(f"colbert-ai compiles {len(missing)} C++ extensions, once on this machine; this takes about a minute")
        for lock in remove_stale_locks():
            say(f"removed {lock}, which a killed compilation left behind")
        # It demands texts and reads none of them.
        return Searcher(folder.name, checkpoint, collection=[""], index_root=str(folder.parent), verbose=0)


def remove_stale_locks() -> list[Path]:
    """Remove the locks of colbert-ai's extensions that no process holds, and return them. What is compiled stays."""
    removed = []
    for name in EXTENSIONS:
        lock = _folder(name) / "lock"
        if lock.exists() and not _held(lock):
            lock.unlink(missing_ok=True)
            removed.append(lock)
    return removed


def _check_tools() -> None:
    """The tools that torch compiles with; those beside this Python are put on the path."""
    beside = str(Path(sys.executable).parent)
    if beside not in os.environ.get("PATH", "").split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", ""), beside])
    for tool in (os.environ.get("CXX", "g++"), "ninja"):
        if shutil.which(tool) is None:
            raise RagLabError(f"colbert-ai's search: {tool} is missing; install it, or search with rag_lab's index")


def _folder(name: str) -> Path:
    """Where torch builds an extension."""
    from torch.utils.cpp_extension import _get_build_directory

    return Path(_get_build_directory(name, verbose=False))


def _built(name: str) -> bool:
    return (_folder(name) / f"{name}.so").exists()


def _held(lock: Path) -> bool:
    """Whether a process has the file open."""
    wanted = str(lock.resolve())
    processes = list(PROCESSES.glob("[0-9]*/fd"))
    for process in processes:
        try:
            if any(str(entry.readlink()) == wanted for entry in process.iterdir()):
                return True
        except OSError:
            continue
    if processes:
        return False
    newest = max(path.stat().st_mtime for path in lock.parent.iterdir())
    return time.time() - newest < STALE_SECONDS
