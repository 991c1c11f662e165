"""A publisher that is killed at any moment leaves the old generation or the new one, whole; the next one cleans up.

200 kills, of publishers that are forked from one which has imported everything; that takes milliseconds. 20 of them
start Java, publish with Lucene and parse in child processes; the other 180 publish without Lucene and parse in their
own process. Each publishes one step; the kill comes at a random moment of it, or shortly after its end. Then what is
there is checked, and the next publication has to succeed.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from rag_lab.contracts import Principal
from rag_lab.corpus import ingestion
from rag_lab.corpus.corpus import Corpus
from rag_lab.corpus.parsing import parse
from rag_lab.corpus.parsing.parsed import ParseError
from rag_lab.corpus.publisher import checksum_of
from rag_lab.store import Store

TESTS = Path(__file__).parent.parent
READER = Principal("acme")
DOCUMENTS = 12
LATER = 1.2
"""Kills are spread over this many times the length of a publication."""

PUBLISHER = """
import os, sys
sys.path[:0] = [{tests!r}, {here!r}]
from pathlib import Path
from conftest import HashEncoder, HashLateEncoder, HashSparseEncoder
from rag_lab.corpus.corpus import Corpus
from rag_lab.retrieval import encoders, late, sparse
from rag_lab.store import Store

encoders.load_encoder = lambda name: HashEncoder()
late.load_late_encoder = lambda name: HashLateEncoder()
sparse.load_sparse_encoder = lambda name: HashSparseEncoder()


def publish(root, name):
    with Corpus.open(Store(Path(root)), name) as corpus:
        print("begins", flush=True)
        corpus.update()
    print("ended", flush=True)
    sys.stdin.readline()
"""

FORKED = """
import faiss, filelock, pyarrow.parquet, torch, yaml  # what is imported here, the forked ones have
from test_publisher_killed import parse_here
from rag_lab.corpus import ingestion, publishing
from rag_lab.corpus.parsing import parse
from rag_lab.retrieval import dense
parse(b"One document to load what parsing needs.", "a.txt")
if sys.argv[1] == "parse here":
    ingestion.parse_guarded = parse_here
for line in sys.stdin:
    root, name, pipe = line.rstrip("\\n").split("\\t")
    pid = os.fork()
    if not pid:
        os.dup2(os.open(pipe, os.O_WRONLY), 1)
        publish(root, name)
        os.kill(os.getpid(), 19)  # waits to be killed
    print(pid, flush=True)
    print(os.waitpid(pid, 0)[1], flush=True)
"""


def parse_here(sources, workers=1) -> Iterator[tuple[str, Any]]:
    """What `parse_guarded` does, in this process."""
    for name, data in sources:
        try:
            yield name, parse(data, name)
        except ParseError as error:
            yield name, error


def write_step(docs: Path, step: int) -> dict[str, str]:
    """Put the files of a step there: of twelve, three change, one goes and one comes. Returns texts by document id."""
    texts = {}
    for n in range(DOCUMENTS):
        if n == step % DOCUMENTS:
            continue
        turn = step - (step - n) % 4
        texts[f"d{n:02}.txt"] = f"Document {n} was written at turn {turn} and says word{turn}."
    for path in docs.glob("*.txt"):
        if path.name not in texts:
            path.unlink()
    for name, text in texts.items():
        if not (docs / name).is_file() or (docs / name).read_text() != text:
            (docs / name).write_text(text)
    return texts


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder in memory where there is one: a killed process loses nothing that it did not flush, and others wait."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)


@pytest.fixture
def docs(place: Path) -> Path:
    folder = place / "docs"
    folder.mkdir()
    (folder / "rights.yaml").write_text('rules:\n  "*": {tenant: acme, public: true}\n')
    return folder


@pytest.fixture
def make(
    place: Path, docs: Path, monkeypatch: pytest.MonkeyPatch, hash_encoder, hash_late_encoder, hash_sparse_encoder
) -> Callable[..., Corpus]:
    monkeypatch.setattr("rag_lab.retrieval.encoders.load_encoder", lambda name: hash_encoder)
    monkeypatch.setattr("rag_lab.retrieval.late.load_late_encoder", lambda name: hash_late_encoder)
    monkeypatch.setattr("rag_lab.retrieval.sparse.load_sparse_encoder", lambda name: hash_sparse_encoder)
    monkeypatch.setattr(ingestion, "parse_guarded", parse_here)

    def made(analyzer: str) -> Corpus:
        settings = {"encoder": "hash", "colbert": "hash", "colbert_indexes": ["exact", "plaid"], "keep": 2}
        weighed = [] if analyzer == "none" else ["hash-sparse"]
        corpus = Corpus.create(Store(place / "store"), "kb", analyzer=analyzer, splade=weighed, **settings)
        write_step(docs, 0)
        corpus.add(docs)
        return corpus

    return made


def whole(corpus: Corpus, texts: dict[str, str], files: dict[str, str]) -> bool:
    """Whether the active generation is exactly this step; whatever it is, it has to be whole.

    All of it can be read, but for documents without a file any more: they may be denied already.
    """
    row = corpus.catalogue.active
    assert row is not None
    snapshot = corpus.snapshot()
    snapshot.verify()
    assert checksum_of(snapshot) == row.checksum
    assert (snapshot.facts["documents"], snapshot.facts["chunks"]) == (row.documents, row.chunks)
    live = corpus.catalogue.live()
    assert {name: version.digest for name, version in live.items()} == dict(snapshot.documents)
    table = snapshot.chunks
    denied = snapshot.denied()
    assert denied.isdisjoint(files)
    readable = corpus.scopes(snapshot, [corpus.request(READER)]).rows(0)
    assert {name for name, rows in table.documents.items() if not readable[rows].all()} == denied
    held = {document.document_id: document.text for document in corpus.documents()}
    assert {name: table.text[rows.start] for name, rows in table.documents.items()} == held
    assert len(snapshot.vectors) == len(snapshot.token_vectors) == len(table) == len(held)
    assert snapshot.late("plaid").card.built == "plaid"
    return held == texts


def check_killed(corpus: Corpus, before: dict[str, str], after: dict[str, str]) -> str:
    """Look at what a killed publisher left, then publish; says which generation readers saw in between."""
    with Corpus.open(corpus.store, "kb") as again:
        new = whole(again, after, after)
        assert new or whole(again, before, after)
        started = time.monotonic()
        report = again.update(wait_s=5)
        assert time.monotonic() - started < 5  # no lock is left
        assert (report.generation is None, dict(report.failed)) == (new, {})
        assert whole(again, after, after)
        states = Counter(row.state for row in again.catalogue.generations())
        assert states["building"] == states["verified"] == 0
        assert states["active"] == 1
        assert again.status(drift=False).orphans == {}
        assert again.catalogue.made() == set()
        left = [str(path) for path in corpus.store.root.rglob("tmp-*")]
        assert left == []
    return "new" if new else "old"


class Forks:
    """Publishers that are forked from a process which has imported everything."""

    def __init__(self, place: Path, parsing: str) -> None:
        program = PUBLISHER.format(tests=str(TESTS), here=str(Path(__file__).parent)) + FORKED
        self._pipe = place / "pipe"
        os.mkfifo(self._pipe)
        self._mother = subprocess.Popen(
            [sys.executable, "-c", program, parsing], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def killed_after(self, root: Path, delay: float | None) -> bool:
        """Publish one step and kill the publisher after a delay, or once it has ended; whether it had ended by then."""
        self._mother.stdin.write(f"{root}\tkb\t{self._pipe}\n")
        self._mother.stdin.flush()
        pid = int(self._mother.stdout.readline())
        with self._pipe.open() as said:
            assert said.readline() == "begins\n"
            last = said.readline() if delay is None else time.sleep(delay)
            os.kill(pid, signal.SIGKILL)
            ended = "ended\n" in (last, said.read())
        assert int(self._mother.stdout.readline()) == signal.SIGKILL
        return ended

    def close(self) -> None:
        self._mother.stdin.close()
        assert self._mother.wait(timeout=30) == 0


def kill_often(
    corpus: Corpus, docs: Path, kills: int, length: float, killed_after: Callable[[Path, float | None], bool]
) -> Counter[str]:
    """Kill publishers at moments that are spread evenly over the length of a publication, in random order.

    How long one takes depends on what else the machine does, so every kill tells the next ones.
    """
    drawn = random.Random(7)
    moments = [LATER * (i + drawn.random()) / kills for i in range(kills)]
    drawn.shuffle(moments)
    seen: Counter[str] = Counter()
    texts = write_step(docs, 0)
    for step, moment in enumerate(moments, 1):
        delay = moment * length
        before, texts = texts, write_step(docs, step)
        ended = killed_after(corpus.store.root, delay)
        found = check_killed(corpus, before, texts)
        assert found == "new" or not ended
        seen["ended" if ended else found] += 1
        if ended:
            length = min(length, delay)
        elif found == "old":
            length = max(length, delay)
    return seen


def length_of(corpus: Corpus, docs: Path, killed_after: Callable[[Path, float | None], bool]) -> float:
    """Seconds that such a publication takes here and now."""
    times = []
    for step in (1001, 1002, 1003):
        write_step(docs, step)
        started = time.perf_counter()
        assert killed_after(corpus.store.root, None)
        times.append(time.perf_counter() - started)
    write_step(docs, 0)
    corpus.update()
    return sorted(times)[1]


REMOVER = """
import shutil
from rag_lab import store

removed = []

def die(path):
    if (path / "removed").exists():
        removed.append(path.parent.name)
    if removed.count("vectors") == 2:  # the last that this publication removes
        os.kill(os.getpid(), 9)
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

store._delete = die
publish(*sys.argv[1:])
"""


def test_what_a_publisher_was_removing_when_it_was_killed_goes_though_nothing_changed_since(
    make: Callable[..., Corpus], docs: Path
) -> None:
    corpus = make("none")
    for step in (1, 2):
        write_step(docs, step)
        corpus.update()
    texts = write_step(docs, 3)
    program = PUBLISHER.format(tests=str(TESTS), here=str(Path(__file__).parent)) + REMOVER
    child = subprocess.run([sys.executable, "-c", program, str(corpus.store.root), "kb"], check=False)
    assert child.returncode == -signal.SIGKILL
    assert [path.name for path in corpus.store.root.rglob("removed")] == ["removed"]
    assert check_killed(corpus, texts, texts) == "new"


@pytest.mark.slow(seconds=100)
def test_180_kills_without_lucene(make: Callable[..., Corpus], docs: Path, place: Path) -> None:
    corpus = make("none")
    forks = Forks(place, "parse here")
    seen = kill_often(corpus, docs, 180, length_of(corpus, docs, forks.killed_after), forks.killed_after)
    forks.close()
    assert seen.total() == 180
    assert seen["old"] >= 60
    assert seen["new"] + seen["ended"] >= 10


@pytest.mark.slow(seconds=50)
def test_20_kills_with_lucene(make: Callable[..., Corpus], docs: Path, place: Path, hash_sparse_encoder) -> None:
    corpus = make("en")
    forks = Forks(place, "parse in child processes")
    seen = kill_often(corpus, docs, 20, length_of(corpus, docs, forks.killed_after), forks.killed_after)
    forks.close()
    assert seen.total() == 20
    assert seen["old"] >= 5
    (word,) = {text.split()[-1].rstrip(".") for text in corpus.snapshot().chunks.text if "Document 3 " in text}
    terms = hash_sparse_encoder.encode_queries([word])
    for hits in (
        corpus.snapshot().bm25.search([word], 5, None),
        corpus.snapshot().impact("hash-sparse").search(terms, 5, None),
    ):
        assert "d03.txt" in {corpus.snapshot().chunks.document_id[row] for row in hits.row.tolist()}
