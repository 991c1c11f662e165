"""The console that tables are printed on."""

from __future__ import annotations

from rich.console import Console

WIDTH = 100


def stdout() -> Console:
    """Standard output, 100 columns wide, and narrower only on a terminal that is."""
    console = Console(highlight=False)
    return Console(highlight=False, width=min(WIDTH, console.width) if console.is_terminal else WIDTH)
