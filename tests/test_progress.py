from __future__ import annotations

import pytest

from rag_lab.progress import Progress, progress_bar


def work(show: bool) -> None:
    with Progress(show) as bars:
        bars.update("bm25", 0, 4)
        bars.update("bm25", 4, 4)
        bars.update("dense", 1, 2)
    with progress_bar("encoding", 3, show) as advance:
        advance(3)


def test_bars_go_to_a_terminal_on_standard_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    work(True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert all(label in shown.err for label in ("bm25", "dense", "encoding"))


def test_nothing_is_written_where_no_terminal_is_or_none_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    work(True)
    work(False)
    assert capsys.readouterr() == ("", "")
