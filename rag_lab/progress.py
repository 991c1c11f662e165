"""Progress of long work, on standard error: one bar a variant and stage. Silent when output is not wanted."""

from __future__ import annotations

from types import TracebackType
from typing import Any


class Progress:
    """Shows what runs now. ``Progress(show=False)`` does nothing."""

    def __init__(self, show: bool = True) -> None:
        self._show = show
        self._bars: Any = None
        self._task: Any = None
        self._label = ""

    def __enter__(self) -> Progress:
        if self._show:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bars

            console = Console(stderr=True)
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            disable = not (console.is_terminal or console.is_jupyter)
            self._bars = Bars(*columns, console=console, transient=True, disable=disable)
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def say(self, text: str) -> None:
        """A line that stays."""
        if self._bars is not None:
            self._bars.console.print(text, highlight=False)

    def update(self, label: str, done: int, total: int) -> None:
        """Work `label` has come to `done` of `total`."""
        if self._bars is None:
            return
        if label != self._label:
            if self._task is not None:
                self._bars.remove_task(self._task)
            self._label, self._task = label, self._bars.add_task(label, total=total)
        self._bars.update(self._task, completed=done, total=total)
