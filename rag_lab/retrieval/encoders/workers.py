"""Work on several batches at once, each on one thread.

Sharing every single operation between threads makes all of them wait for the slowest, hundreds of times a batch; on a
machine that does something else as well, that costs most of the speed. Batches need not wait for one another. One
thread for each operation also means that results do not depend on how many there are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def each_on_one_thread(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """``work(item)`` for each item, in order, on as many threads as OpenMP may use (``OMP_NUM_THREADS``, torch)."""
    threads = max((library["num_threads"] for library in _openmp(len(sys.modules)).info()), default=1)
    with ThreadPoolExecutor(threads, "encoder", _use_one_thread) as pool:
        yield from pool.map(work, items)


def _use_one_thread() -> None:
    """Let OpenMP regions that the calling thread starts run on it alone; other threads keep their setting."""
    if "torch" in sys.modules:
        import torch  # waits where another thread is still loading it

        # torch gives a new thread its own setting at the first call, and would undo ours afterwards.
        torch.get_num_threads()
    _openmp(len(sys.modules)).limit(limits=1)


@lru_cache(maxsize=1)
def _openmp(modules: int) -> Any:  # noqa: ARG001 - what is loaded changes with an import, and looking for it takes long
    """The OpenMP libraries that are loaded when so many modules are."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="openmp")
