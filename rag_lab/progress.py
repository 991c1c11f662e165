"""Progress of long work: bars on a terminal's standard error or in a notebook, nothing where neither is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any


def _bar(label: str, total: int, show: bool) -> Any:
    from tqdm.auto import tqdm

    return tqdm(desc=label, total=total, leave=False, disable=None if show else True)


@contextmanager
def progress_bar(label: str, total: int, show: bool = True) -> Iterator[Callable[[int], None]]:
    """A bar for one piece of work; yields a function that takes how much was just done."""
    with _bar(label, total, show) as bar:
        yield bar.update


class Progress:
    """One bar at a time for a run of many pieces. ``Progress(show=False)`` does nothing."""

    def __init__(self, show: bool = True) -> None:
        self.show = show
        self._bar: Any = None
        self._label = ""

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def update(self, label: str, done: int, total: int) -> None:
        """Work `label` has come to `done` of `total`."""
        if label != self._label:
            if self._bar is not None:
                self._bar.close()
            self._label, self._bar = label, _bar(label, total, self.show)
        self._bar.update(done - self._bar.n)
