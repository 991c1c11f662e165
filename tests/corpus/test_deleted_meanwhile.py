"""A deletion while a publisher is at work on the same document, and folders that cannot be looked into."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
from test_stated_rights import parse_here

from rag_lab.contracts import Principal, RagLabError
from rag_lab.corpus import ingestion, publisher
from rag_lab.corpus.corpus import Corpus
from rag_lab.store import Store

READER = Principal("acme")


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    (folder / "more").mkdir(parents=True)
    (folder / "pay.txt").write_text("Nobody earns enough.")
    (folder / "more" / "menu.txt").write_text("Soup and bread.")
    return folder


@pytest.fixture
def corpus(tmp_path: Path, docs: Path, monkeypatch: pytest.MonkeyPatch, hash_encoder):
    monkeypatch.setattr("rag_lab.retrieval.encoders.load_encoder", lambda name: hash_encoder)
    monkeypatch.setattr(ingestion, "parse_guarded", parse_here)
    with Corpus.create(Store(tmp_path / "store"), "kb", encoder="hash", analyzer="none") as made:
        made.add(docs, tenant="acme", public=True)
        yield made


def test_a_content_that_came_while_its_document_was_deleted_is_denied_as_well(
    corpus: Corpus, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = publisher.check

    def delete() -> None:
        with Corpus.open(corpus.store, "kb") as other:
            other.delete(["pay.txt"])

    deleting = threading.Thread(target=delete)

    def meanwhile(*given) -> None:
        monkeypatch.setattr(publisher, "check", check)
        deleting.start()
        while corpus.catalogue.source("pay.txt").deleted_by != "caller":
            time.sleep(0.01)
        check(*given)

    monkeypatch.setattr(publisher, "check", meanwhile)
    (docs / "pay.txt").write_text("Somebody earns too much.")
    assert corpus.update().updated == ["pay.txt"]
    deleting.join(timeout=30)
    assert not deleting.is_alive()
    assert "pay.txt" not in corpus.catalogue.live()
    generations = [row.number for row in corpus.catalogue.generations() if row.snapshot]
    assert generations == [1, 2, 3]
    assert [corpus.chunks("pay.txt", READER, generation=number) for number in generations] == [[], [], []]
    assert corpus.update().asleep == ["pay.txt"]


def test_a_folder_that_cannot_be_looked_into_is_not_empty(
    corpus: Corpus, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scandir = os.scandir

    def refuse(path):
        if Path(path) == docs / "more":
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    with monkeypatch.context() as broken:
        broken.setattr(os, "scandir", refuse)
        with pytest.raises(RagLabError, match=r"more: cannot be read \(Permission denied\)"):
            corpus.update()
    assert corpus.chunks("more/menu.txt", READER)
    assert corpus.update().generation is None
