from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_lab.contracts import Document, RagLabError, Span
from rag_lab.corpus.chunking import Blocks, Chunker, Window, load_chunker


def words(text: str) -> list[Span]:
    return [match.span() for match in re.finditer(r"\w+|[^\w\s]", text)]


def characters(text: str) -> list[Span]:
    return [(i, i + 1) for i in range(len(text))]


def texts(chunker: Chunker, text: str, spans=words) -> list[str]:
    return [text[slice(*piece.span)] for piece in chunker.cut(Document("d", text), spans)]


FENCES = """# Setup
```bash
# install
run it
```
~~~~text
## not a heading
~~~
still code
~~~~
   ```
# also code
   ```
#hashtag
## Usage ##
text
```python
# unclosed"""


def test_s07_a_hash_inside_code_is_no_heading() -> None:
    pieces = Blocks(30).cut(Document("d", FENCES), words)
    by_path: dict[tuple[str, ...], str] = {}
    for piece in pieces:
        by_path[piece.section_path] = by_path.get(piece.section_path, "") + FENCES[slice(*piece.span)]
    assert list(by_path) == [("Setup",), ("Setup", "Usage")]
    assert all(text in by_path["Setup",] for text in ("run it", "still code", "# also code", "#hashtag"))
    assert "# unclosed" in by_path["Setup", "Usage"]
    assert "".join("".join(by_path.values()).split()) == "".join(FENCES.split())


@pytest.mark.parametrize("text", ["No. No. No. Yes. No. No.", "😀 ok.\r\n\r\nok. ok."])
@pytest.mark.parametrize("spans", [words, characters])
def test_s06_offsets_hold_when_text_repeats(text: str, spans) -> None:
    pieces = Window(8, 3).cut(Document("d", text), spans)
    starts = [piece.span[0] for piece in pieces]
    assert starts == sorted(set(starts))
    covered = {i for piece in pieces for i in range(*piece.span)}
    assert all(i in covered for i, character in enumerate(text) if not character.isspace())


def test_s06_offsets_count_code_points() -> None:
    text = "😀 ok.\r\n\r\nok. ok."
    assert len(text) == 16
    assert [text[slice(*piece.span)] for piece in Blocks(8).cut(Document("d", text), characters)] == [
        "😀 ok.",
        "ok. ok.",
    ]
    assert Blocks(8).cut(Document("d", text), characters)[1].span == (9, 16)


def test_s08_text_without_spaces_is_cut() -> None:
    pieces = texts(Window(200), "学" * 3000, characters)
    assert len(pieces) == 15
    assert "".join(pieces) == "学" * 3000
    assert max(map(len, texts(Blocks(200), "学" * 3000, characters))) == 200


def test_s08_chinese_sentences_end_at_their_marks() -> None:
    assert texts(Blocks(8), "今天开会。明天放假！后天上班？", characters) == ["今天开会。", "明天放假！", "后天上班？"]


def test_s08_large_overlap_advances_or_is_refused() -> None:
    starts = [piece.span[0] for piece in Window(30, 29).cut(Document("d", "ok\n" * 40), characters)]
    assert starts == list(range(91))
    with pytest.raises(RagLabError, match="size 30 and overlap 30"):
        Window(30, 30)


@given(st.integers(0, 200), st.integers(1, 40), st.integers(0, 39))
def test_number_of_windows_equals_the_formula(tokens: int, size: int, overlap: int) -> None:
    if overlap >= size:
        return
    pieces = Window(size, overlap).cut(Document("d", "x" * tokens), characters)
    expected = 0 if tokens == 0 else max(1, math.ceil((tokens - overlap) / (size - overlap)))
    assert len(pieces) == expected
    assert all(piece.span[1] - piece.span[0] <= size for piece in pieces)


@given(st.text(alphabet=st.sampled_from("ab 。.\n#|`-学\r\t"), max_size=120), st.integers(8, 20))
def test_blocks_lose_nothing_and_never_exceed_the_size(text: str, size: int) -> None:
    pieces = Blocks(size).cut(Document("d", text), characters)
    starts = [piece.span[0] for piece in pieces]
    assert starts == sorted(set(starts))
    covered = {i for piece in pieces for i in range(*piece.span)}
    assert all(i in covered for i, character in enumerate(text) if not character.isspace())
    assert all(piece.span[1] - piece.span[0] <= size for piece in pieces)


def test_an_empty_document_has_no_chunk() -> None:
    assert texts(load_chunker("whole"), " \n ") == []
    assert texts(load_chunker("blocks"), "") == []
    assert texts(load_chunker("window"), "\n") == []


def test_unknown_chunker_names_the_field() -> None:
    with pytest.raises(RagLabError, match=r"snapshot\.chunker\.name: 'semantic' is unknown"):
        load_chunker("semantic")
