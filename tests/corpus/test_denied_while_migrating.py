"""What is denied, or out of scope, while two models are compared gets into neither ranking."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag_lab.contracts import Principal, Question, RagLabError
from rag_lab.corpus import migration
from rag_lab.corpus.corpus import Corpus
from rag_lab.store import Store

READER = Principal("acme")


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hash_encoder):
    monkeypatch.setattr("rag_lab.retrieval.encoders.load_encoder", lambda name: hash_encoder)
    folder = tmp_path / "docs"
    folder.mkdir()
    for name in ("attic", "cellar", "vault"):
        (folder / f"{name}.txt").write_text(f"The {name} opens at nine.")
    (folder / "rights.yaml").write_text('rules:\n  "*": {tenant: acme, public: true}\n  "vault*": {groups: [guards]}\n')
    with Corpus.create(Store(tmp_path / "store"), "kb", encoder="hash", analyzer="none") as made:
        made.add(folder)
        yield made


def found(corpus: Corpus) -> set[str]:
    questions = [Question("q", "When does it open?", principal=READER)]
    ranking = migration._dense(corpus, corpus.snapshot(), "hash", questions, [corpus.request(READER)])
    return {corpus.snapshot().chunks.document_id[row] for row in ranking.chunk.tolist()}


def test_a_document_denied_meanwhile_is_searched_for_no_more(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(corpus) == {"attic.txt", "cellar.txt"}
    search = migration._search

    def meanwhile(*given):
        ranking = search(*given)
        monkeypatch.setattr(migration, "_search", search)
        corpus.revoke(["attic.txt"], "meanwhile")
        return ranking

    monkeypatch.setattr(migration, "_search", meanwhile)
    assert found(corpus) == {"cellar.txt"}


def test_denials_without_end_are_an_error(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    search, names = migration._search, iter(["attic.txt", "cellar.txt", "vault.txt"])

    def meanwhile(*given):
        ranking = search(*given)
        corpus.revoke([next(names)], "meanwhile")
        return ranking

    monkeypatch.setattr(migration, "_search", meanwhile)
    with pytest.raises(RagLabError, match="denied faster than models are compared"):
        found(corpus)


def test_an_index_that_goes_out_of_scope_is_an_error(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    index = corpus.snapshot().dense("Flat")
    search = type(index).search
    monkeypatch.setattr(type(index), "search", lambda self, queries, depth, allowed: search(self, queries, depth, None))
    with pytest.raises(RagLabError, match="outside the caller's scope; nothing was kept"):
        found(corpus)
