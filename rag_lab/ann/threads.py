"""How many threads work: the same number for FAISS and for the matrix products of numpy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def threads(count: int) -> Iterator[None]:
    """At most `count` threads; the settings of the process come back afterwards."""
    import faiss
    from threadpoolctl import threadpool_limits

    # FAISS is imported above, because only libraries that are loaded are limited.
    before = faiss.omp_get_max_threads()
    with threadpool_limits(count):
        faiss.omp_set_num_threads(count)
        try:
            yield
        finally:
            faiss.omp_set_num_threads(before)
