"""Generated context prefixes: what the model sees, what is kept, and where the sentence goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from rag_lab.contracts import Acl, Document, IntArray, RagLabError, SectionRights, Written
from rag_lab.corpus.chunking import Blocks, ParentChild, Piece, Window
from rag_lab.corpus.prefixing import KIND, LONGEST, Prefixed, prefixes, surroundings
from rag_lab.corpus.publishing import publish
from rag_lab.corpus.segment import document_digest
from rag_lab.preparation import Preparation
from rag_lab.progress import Progress
from rag_lab.store import Store

STAFF, BOARD = Acl(groups=("staff",)), Acl(groups=("board",))


@dataclass
class Echo:
    """Writes the number of the text, and remembers what it was shown."""

    name: str = "echo"
    version: str = "1"
    window: int | None = None
    seen: list[str] = field(default_factory=list)
    instructions: list[str] = field(default_factory=list)
    stop_after: int = 10**9

    def count_prompts(self, instructions: str, texts: Sequence[str]) -> IntArray:
        return np.ones(len(texts), dtype=np.int32)

    def write(self, instructions: str, texts: Sequence[str], output_tokens: IntArray) -> list[Written]:
        if len(self.seen) + len(texts) > self.stop_after:
            raise RuntimeError("stopped")
        self.seen += texts
        self.instructions.append(instructions)
        return [Written(f"  It is text\tnumber {len(text)}. \nMore.", 1, 1, 1.0) for text in texts]


TEXT = "Open one two three. Secret plan four five. Open six seven eight. Open nine ten."
SECRET = (TEXT.index("Secret"), TEXT.index("Open six"))
DOCUMENT = Document("d", TEXT, title="Handbook", acl=STAFF, sections=(SectionRights(SECRET, BOARD),))


def test_the_model_sees_only_text_with_the_chunks_own_rights() -> None:
    opened, secret = Piece((0, 19), ("Rules",)), Piece((20, 42))
    assert surroundings(DOCUMENT, opened, 200) == ("", "Open six seven eight. Open nine ten.")
    assert surroundings(DOCUMENT, secret, 200) == ("", "")
    crossing = Piece((0, 30))
    assert surroundings(DOCUMENT, crossing, 200) == ("", "n four five.")
    echo = Echo()
    prefixes([(DOCUMENT, opened), (DOCUMENT, secret)], echo)
    assert echo.seen == [
        "Document: Handbook\n\nSection: Rules\n\nText after: Open six seven eight. Open nine ten.\n\n"
        "Passage: Open one two three.",
        "Document: Handbook\n\nPassage: Secret plan four five.",
    ]


def test_a_child_sees_what_the_readers_of_its_parent_may_read() -> None:
    child = Piece((0, 19), shown=(0, 42))
    assert surroundings(DOCUMENT, child, 200) == ("", "Secret plan four five.")


def test_the_reach_limits_what_is_seen_on_each_side() -> None:
    document = Document("d", "a" * 50 + "b" * 10 + "c" * 50, acl=STAFF)
    assert surroundings(document, Piece((50, 60)), 20) == ("a" * 10, "c" * 10)
    assert surroundings(document, Piece((50, 60)), 0) == ("", "")


@dataclass
class Says:
    """Writes one text."""

    text: str
    name: str = "says"
    version: str = "1"
    window: int | None = None

    def count_prompts(self, instructions: str, texts: Sequence[str]) -> IntArray:
        return np.ones(len(texts), dtype=np.int32)

    def write(self, instructions: str, texts: Sequence[str], output_tokens: IntArray) -> list[Written]:
        return [Written(self.text, 1, 1, 1.0)] * len(texts)


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("", ""),
        ("\n \n  One   line.\nAnother.", "One line."),
        ("a\u0000b\u200bc", "a b c"),
        ("x" * 1000, "x" * LONGEST),
    ],
)
def test_a_sentence_is_one_line_of_data(written: str, kept: str) -> None:
    assert prefixes([(DOCUMENT, Piece((0, 19)))], Says(written)) == [kept]


def test_instructions_are_in_the_language_of_the_document() -> None:
    echo = Echo()
    units = [(Document("a", "一二三", language="zh"), Piece((0, 3))), (Document("b", "one"), Piece((0, 3)))]
    assert prefixes(units, echo) == [f"It is text number {len(text)}." for text in ("段落: 一二三", "Passage: one")]
    assert [text.partition(":")[0] for text in echo.seen] == ["Passage", "段落"]


def documents(n: int) -> list[Document]:
    return [Document(f"d{i:03}", f"Words of document {i}. " * 4, acl=STAFF) for i in range(n)]


def test_sentences_reach_the_indexes_and_not_what_is_shown(tmp_path: Path, hash_encoder) -> None:
    echo = Echo()
    chunker = Prefixed(Blocks(8), echo, Store(tmp_path))
    chunks = publish(Store(tmp_path), documents(2), chunker, token_encoder=hash_encoder).chunks
    assert all(prefix.startswith("It is text number") for prefix in chunks.prefix)
    for row in range(len(chunks)):
        assert chunks.indexed_text(row) == f"{chunks.prefix[row]} {chunks.text[row]}"
        assert chunks.prefix[row] not in chunks.shown[row]


def test_only_what_changed_is_written_for_again(tmp_path: Path, hash_encoder) -> None:
    echo, some = Echo(), documents(5)
    chunker = Prefixed(Window(6), echo, Store(tmp_path))
    first = chunker.cut(some, hash_encoder)
    assert len(echo.seen) == sum(map(len, first))
    assert chunker.cut(some, hash_encoder) == first
    assert len(echo.seen) == sum(map(len, first))
    changed = Document("d001", "Other words.", acl=STAFF)
    assert chunker.cut([some[0], changed, *some[2:]], hash_encoder)[1][0].prefix.startswith("It is")
    assert len(echo.seen) == sum(map(len, first)) + 1
    assert (tmp_path / KIND / document_digest(changed)).is_dir()


def test_an_interrupted_run_goes_on(tmp_path: Path, hash_encoder) -> None:
    some = documents(80)
    stopped = Prefixed(Window(100), Echo(stop_after=70), Store(tmp_path))
    with pytest.raises(RuntimeError):
        stopped.cut(some, hash_encoder)
    echo = Echo()
    found = Prefixed(Window(100), echo, Store(tmp_path)).cut(some, hash_encoder)
    assert len(echo.seen) == 80 - 64
    assert found == Prefixed(Window(100), Echo(), Store(tmp_path / "fresh")).cut(some, hash_encoder)


def test_a_long_document_is_kept_in_parts(tmp_path: Path, hash_encoder) -> None:
    long = [Document("d", " ".join(f"w{i}" for i in range(150)), acl=STAFF)]
    found = Prefixed(Window(1), Echo(), Store(tmp_path)).cut(long, hash_encoder)[0]
    echo = Echo()
    assert Prefixed(Window(1), echo, Store(tmp_path)).cut(long, hash_encoder)[0] == found
    assert echo.seen == []
    assert len(list((tmp_path / KIND / document_digest(long[0])).iterdir())) == 3


def test_the_version_changes_with_all_that_decides_a_sentence(tmp_path: Path) -> None:
    store = Store(tmp_path)
    made = [
        Prefixed(Blocks(8), Echo(), store),
        Prefixed(Blocks(9), Echo(), store),
        Prefixed(Blocks(8), Echo(version="2"), store),
        Prefixed(Blocks(8), Echo(), store, tokens=41),
        Prefixed(Blocks(8), Echo(), store, reach=2001),
    ]
    assert len({chunker.version for chunker in made}) == 5
    assert made[0].version.startswith("blocks-4(size=8)+prefix(echo,")
    assert made[0].counts_tokens


def test_a_generator_that_only_quotes_cannot_write(tmp_path: Path) -> None:
    from rag_lab.definition import Experiment

    experiment = Experiment.read(
        {"dataset": "handbook", "snapshot": {"context_prefix": {"generator": "extractive"}}, "variants": ["bm25"]}
    )
    with pytest.raises(RagLabError, match=r"snapshot\.context_prefix\.generator: 'extractive' writes no text"):
        _ = Preparation(experiment, Store(tmp_path), Progress(False)).chunkers


@pytest.mark.slow
def test_the_packaged_model_writes_one_sentence_for_each_chunk(tmp_path: Path, hash_encoder) -> None:
    from rag_lab.generation import load_generator

    text = (
        "# Leave\n\nEmployees have thirty days of leave. Unused days expire in March.\n\n# Travel\n\nTrains are paid."
    )
    chunker = Prefixed(ParentChild(12, 60), load_generator("smollm2", batch_size=2), Store(tmp_path), tokens=8)  # type: ignore[arg-type]
    document = Document("d", text, title="Staff handbook", acl=STAFF)
    (found,) = chunker.cut([document], hash_encoder)
    assert all(piece.prefix and "\n" not in piece.prefix for piece in found)
    assert chunker.cut([document], hash_encoder) == [found]
    long, short = chunker.writer.write("Say one word.", ["word " * 9000, "word"], np.array([8, 2], dtype=np.int32))
    assert (long.text, long.prompt_tokens) == ("", 0)
    assert "exceed the window" in long.cause
    assert (short.cause, short.output_tokens <= 2, short.prompt_tokens) == (
        "",
        True,
        chunker.writer.count_prompts("Say one word.", ["word"])[0],
    )
    with pytest.raises(RagLabError, match="lower its reach"):
        prefixes([(Document("d", "word " * 9000, acl=STAFF), Piece((0, 45000)))], chunker.writer, 8, 45000)


def test_a_purge_removes_the_sentences_of_what_is_denied(
    tmp_path: Path, hash_encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rag_lab.corpus.corpus import Corpus

    folder = tmp_path / "docs"
    folder.mkdir()
    for name in ("open", "vault"):
        (folder / f"{name}.txt").write_text(f"The {name} is described here and nowhere else in all of the pages.\n")
    (folder / "rights.yaml").write_text('rules:\n  "*": {tenant: default, public: true}\n')
    monkeypatch.setattr("rag_lab.retrieval.encoders.load_encoder", lambda name: hash_encoder)
    store = Store(tmp_path / "store")
    with Corpus.create(store, "kb", encoder="hash", analyzer="en") as corpus:
        corpus.add(folder)
        digests = dict(corpus.snapshot().documents)
        for digest in digests.values():
            store.write(KIND, digest, "x-0.json", b'["A sentence."]')
        corpus.revoke(["vault.txt"], "a test")
        purge = corpus.purge()
    assert purge.removed[KIND] == 1
    assert store.entries(KIND) == [digests["open.txt"]]


# --- corpora --------------------------------------------------------------------------------------------------------


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch, hash_encoder) -> Echo:
    """The generator of this name, beside an encoder for corpora."""
    from rag_lab import generation

    made, load = Echo(), generation.load_generator
    monkeypatch.setattr(generation, "load_generator", lambda name, **o: made if name == "echo" else load(name, **o))
    monkeypatch.setattr("rag_lab.retrieval.encoders.load_encoder", lambda name: hash_encoder)
    return made


def test_a_corpus_has_sentences_written_for_what_changed_alone(tmp_path: Path, echo: Echo) -> None:
    from rag_lab.corpus.corpus import Corpus

    folder = tmp_path / "docs"
    folder.mkdir()
    for name in ("one", "two", "three"):
        (folder / f"{name}.txt").write_text(f"The {name} room has a door and a window.\n")
    settings = {"encoder": "hash", "analyzer": "none", "context_prefix": {"generator": "echo", "tokens": 20}}
    with Corpus.create(Store(tmp_path / "store"), "kb", **settings) as corpus:
        corpus.add(folder, tenant="t", public=True)
        assert len(echo.seen) == 3
        (folder / "two.txt").write_text("The second room has no window.\n")
        corpus.update()
        assert echo.seen[3:] == ["Passage: The second room has no window."]
        (folder / "three.txt").unlink()
        corpus.update()
        assert len(echo.seen) == 4
        chunks = corpus.snapshot().chunks
        row = chunks.document_id.index("two.txt")
        assert chunks.prefix[row] == f"It is text number {len(echo.seen[3])}."
        assert chunks.prefix[row] in chunks.indexed_text(row)
        assert chunks.prefix[row] not in chunks.shown[row]
        assert corpus.catalogue.active.settings["context_prefix"] == {
            "generator": "echo",
            "options": {},
            "tokens": 20,
            "reach": 2000,
        }
    echo.version = "2"
    with Corpus.open(Store(tmp_path / "store"), "kb") as corpus:
        (folder / "four.txt").write_text("A new room.\n")
        corpus.update()
        assert len(echo.seen) == 4 + 3


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ("echo", r": must be a mapping of generator, options, tokens and reach \(found 'echo'\)"),
        ({}, r"\.generator: missing; add it"),
        ({"generator": "echo", "tokens": 0}, r"\.tokens: input should be greater than or equal to 1 \(found 0\)"),
        ({"generator": "echo", "size": 3}, r"\.size: unknown field; remove it or check its spelling"),
        ({"generator": "extractive"}, r"\.generator: 'extractive' writes no text of its own; name a language model"),
    ],
)
def test_faults_of_a_corpus_setting_are_one_line(tmp_path: Path, echo: Echo, given: object, fault: str) -> None:
    from rag_lab.corpus.corpus import Corpus, corpora

    with pytest.raises(RagLabError, match=rf"^corpus kb, setting context_prefix{fault}[^\n]*$"):
        Corpus.create(Store(tmp_path), "kb", encoder="hash", context_prefix=given)
    assert corpora(Store(tmp_path)) == []
