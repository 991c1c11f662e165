"""Rights that a Markdown file states in its own front matter, from the bytes on disk to what readers see."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag_lab.contracts import Principal
from rag_lab.corpus.corpus import Corpus
from rag_lab.store import Store

LEAVE = """---
tenant: acme
public: true
valid_until: 2027-12-31
sections:
  Managers: {groups: [managers]}
---
# Leave

Twenty days a year.

## Managers

Thirty days a year.
"""


def test_front_matter_says_who_reads_what(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hash_encoder) -> None:
    monkeypatch.setattr("rag_lab.retrieval.encoders.load_encoder", lambda name: hash_encoder)
    (tmp_path / "leave.md").write_text(LEAVE)
    with Corpus.create(Store(tmp_path / "store"), "kb", encoder="hash", analyzer="none") as corpus:
        report = corpus.add(tmp_path / "leave.md")
        assert (report.failed, report.admits_nobody) == ({}, [])
        table = corpus.snapshot().chunks

        def read(principal: Principal) -> str:
            return " ".join(table.text[row] for row in corpus.chunks("leave.md", principal))

        assert "Twenty days" in read(Principal("acme"))
        assert "Thirty" not in read(Principal("acme"))
        assert "Thirty days" in read(Principal("acme", ("managers",)))
        assert read(Principal("other", ("managers",))) == ""
        assert table.valid_until[0].isoformat() == "2028-01-01T00:00:00+00:00"
