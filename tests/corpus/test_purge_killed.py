"""A purge that is killed at any moment: its documents wait for the next one, or are proven gone; reading goes on."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_publisher_killed import place  # noqa: F401 - a fixture
from test_purge import bytes_of
from test_stated_rights import parse_here

from rag_lab.contracts import Principal
from rag_lab.corpus import ingestion
from rag_lab.corpus import purge as purging
from rag_lab.corpus.corpus import Corpus
from rag_lab.corpus.purge import backlog
from rag_lab.store import Store

READER = Principal("acme")
KILLS = 20
PURGER = """
import os, sys
import faiss, filelock, pyarrow.parquet, torch, yaml  # what is imported here, the forked ones have
from pathlib import Path
from rag_lab.corpus import publishing, purge
from rag_lab.corpus.corpus import Corpus
from rag_lab.retrieval import dense
from rag_lab.store import Store
for line in sys.stdin:
    root, pipe = line.rstrip("\\n").split("\\t")
    pid = os.fork()
    if not pid:
        os.dup2(os.open(pipe, os.O_WRONLY), 1)
        with Corpus.open(Store(Path(root)), "kb") as corpus:
            print("begins", flush=True)
            corpus.purge()
        print("ended", flush=True)
        os.kill(os.getpid(), 19)  # waits to be killed
    print(pid, flush=True)
    print(os.waitpid(pid, 0)[1], flush=True)
"""


def holding(root: Path, traces: list[bytes]) -> set[str]:
    """First folders below the root with a file that holds one of these. Databases are looked at by another process:
    to close one here would end the locks of the connection that is open."""
    files = [path for path in root.rglob("*") if path.is_file()]
    found = [p for p in files if "sqlite" not in p.name and any(trace in bytes_of(p) for trace in traces)]
    for path in (path for path in files if "sqlite" in path.name):
        looked = [subprocess.run(["grep", "-aqF", trace.decode(), str(path)], check=False) for trace in traces]
        found += [path] if any(done.returncode == 0 for done in looked) else []
    return {path.relative_to(root).parts[0] for path in found}


@pytest.fixture
def docs(place: Path) -> Path:  # noqa: F811
    folder = place / "docs"
    folder.mkdir()
    for number in range(8):
        (folder / f"page{number}.txt").write_text(f"Page {number} tells of gardening tool number {number * 7}.\n")
    (folder / "rights.yaml").write_text('rules:\n  "*": {tenant: acme, public: true}\n')
    return folder


@pytest.fixture
def corpus(
    place: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    hash_encoder,
    hash_late_encoder,
) -> Iterator[Corpus]:
    monkeypatch.setattr("rag_lab.retrieval.encoders.load_encoder", lambda name: hash_encoder)
    monkeypatch.setattr("rag_lab.retrieval.late.load_late_encoder", lambda name: hash_late_encoder)
    monkeypatch.setattr(ingestion, "parse_guarded", parse_here)
    settings = {"encoder": "hash", "analyzer": "none", "factories": ["Flat", "HNSW8"]}
    settings |= {"colbert": "hash", "colbert_indexes": ["exact", "plaid"]}
    with Corpus.create(Store(place / "store"), "kb", **settings) as made:
        yield made


def deny_another(corpus: Corpus, docs: Path, number: int) -> tuple[str, bytes]:
    """Add a document and deny it; each other time by an id that was purged before. Returns id and a trace."""
    name = "vault.txt" if number % 2 else f"vault{number}.txt"
    trace = f"Vault number {number} opens with key {number * 7919} and closes by itself at a quarter past four"
    (docs / name).write_text(f"{trace}.\n")
    assert name in {*(report := corpus.add(docs)).added, *report.updated}
    corpus.delete([name]) if number % 2 else corpus.revoke([name], "a test")
    return name, trace.encode()


def killed_after(mother: subprocess.Popen, root: Path, pipe: Path, delay: float | None) -> bool:
    """Purge and kill the purger after a delay, or once it has ended; whether it had ended by then."""
    mother.stdin.write(f"{root}\t{pipe}\n")
    mother.stdin.flush()
    pid = int(mother.stdout.readline())
    with pipe.open() as said:
        assert said.readline() == "begins\n"
        last = said.readline() if delay is None else time.sleep(delay)
        os.kill(pid, signal.SIGKILL)
        ended = "ended\n" in (last, said.read())
    assert int(mother.stdout.readline()) == signal.SIGKILL
    return ended


def check(corpus: Corpus, name: str, trace: bytes) -> str:
    """What a killed purge left: nothing, or what is known to be left; the next purge takes it away."""
    with Corpus.open(corpus.store, "kb") as again:
        snapshot = again.snapshot()
        snapshot.verify()
        assert all(again.chunks(f"page{number}.txt", READER) for number in range(8))
        assert again.chunks(name, READER) == []
        waits = name in backlog(again)
        assert waits or not holding(corpus.store.root, [trace])
        done = again.purge(wait_s=5)
        assert (done.proof is not None) == waits
        assert done.proof is None or done.proof.clean
        assert holding(corpus.store.root, [trace]) == set()
        assert backlog(again) == []
        assert again.status(drift=False).orphans == {}
        assert list(corpus.store.root.rglob("tmp-*")) == []
    return "waits" if waits else "gone"


@pytest.mark.slow(seconds=50)
def test_20_kills(corpus: Corpus, docs: Path, place: Path) -> None:  # noqa: F811
    pipe, root = place / "pipe", corpus.store.root
    os.mkfifo(pipe)
    mother = subprocess.Popen([sys.executable, "-c", PURGER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    corpus.add(docs)
    started = time.perf_counter()
    denied = [deny_another(corpus, docs, number) for number in (1, 2)]
    started = time.perf_counter()
    assert killed_after(mother, root, pipe, None)
    length = time.perf_counter() - started
    assert [check(corpus, *one) for one in denied] == ["gone", "gone"]
    drawn, seen = random.Random(7), Counter()
    for number in range(KILLS):
        name, trace = deny_another(corpus, docs, number + 3)
        ended = killed_after(mother, root, pipe, length * (number + drawn.random()) / KILLS)
        found = check(corpus, name, trace)
        assert found == "gone" or not ended
        seen["ended" if ended else found] += 1
    mother.stdin.close()
    assert mother.wait(timeout=30) == 0
    assert seen.total() == KILLS
    assert seen["waits"] >= KILLS // 3


def test_a_second_purge_of_an_id_is_not_taken_for_the_first(
    corpus: Corpus, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus.add(docs)
    deny_another(corpus, docs, 1)
    assert corpus.purge().proof.clean
    name, trace = deny_another(corpus, docs, 3)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(purging, "rewrite_part", killed)
        with pytest.raises(KeyboardInterrupt):
            corpus.purge()
    assert holding(corpus.store.root, [trace]) == {"corpora"}
    assert backlog(corpus) == [name]
    assert corpus.purge().proof.clean
    assert holding(corpus.store.root, [trace]) == set()
    assert backlog(corpus) == []
    assert corpus.status(drift=False).orphans == {}


def test_what_is_revoked_while_a_purge_begins_is_for_the_next(
    corpus: Corpus, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus.add(docs)
    name, trace = deny_another(corpus, docs, 2)
    inside = purging._snapshots

    def meanwhile(given: Corpus):
        monkeypatch.setattr(purging, "_snapshots", inside)
        corpus.revoke(["page3.txt"], "meanwhile")
        return inside(given)

    monkeypatch.setattr(purging, "_snapshots", meanwhile)
    assert corpus.purge().documents == [name]
    assert corpus.chunks("page3.txt", READER) == []
    assert corpus.purge().documents == ["page3.txt"]
    assert holding(corpus.store.root, [trace, b"Page 3 tells of gardening"]) == set()


def test_what_could_not_be_ingested_is_not_kept_and_not_quoted(corpus: Corpus, docs: Path) -> None:
    """A version with wrong rights fails alone; nothing of it may wait where no purge looks."""
    words = "the-secret-name-of-the-reactor-vault"
    (docs / "vault.md").write_text(f"---\ntitle: {words}\n---\n# Vault\n\nThe {words} is not to be told.\n")
    corpus.add(docs)
    fresh = f"---\ntitle: {words}\ngroups: {words}\n---\n# Vault\n\nAnother text that only the new version has.\n"
    (docs / "vault.md").write_text(fresh)
    (docs / "never.md").write_text("---\ngroups: none\n---\n# Never\n\nThis one never came in.\n")
    assert sorted(corpus.update().failed) == ["never.md", "vault.md"]
    assert holding(corpus.store.root, [b"only the new version", b"never came in"]) == set()
    corpus.revoke(["vault.md"], "a test")
    assert corpus.purge().proof.clean
    assert holding(corpus.store.root, [f"The {words} is".encode(), f"groups: '{words}'".encode()]) == set()
    assert not corpus.catalogue.source("vault.md").error


def test_originals_that_made_the_same_document_go_as_well(corpus: Corpus, docs: Path) -> None:
    """Three originals that differ in what no reader sees come to one version of the document."""
    for number in range(3):
        comment = f"<!-- remark {number} of the keeper of the northern vault -->"
        (docs / "vault.md").write_text(f"---\nversion: v1\n---\n# Vault\n\nThe vault opens at nine.\n{comment}\n")
        corpus.add(docs)
    assert len(corpus.catalogue.versions(["vault.md"])) == 1
    remarks = [f"remark {number} of the keeper".encode() for number in range(3)]
    assert [holding(corpus.store.root, [remark]) for remark in remarks] == [{"corpora"}] * 3
    corpus.revoke(["vault.md"], "a test")
    assert corpus.purge().proof.clean
    assert holding(corpus.store.root, remarks) == set()
