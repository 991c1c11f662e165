from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from cutting import CHARACTERS, WORDS, check, pieces, texts
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.corpus.chunking import Blocks, Recursive, Window
from rag_lab.corpus.chunking.breaks import break_levels, sentences
from rag_lab.retrieval.encoders import load_encoder


def split(text: str) -> list[str]:
    return [text[slice(*span)].strip() for span in sentences(text, (0, len(text)))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("Dr. Lee came at 3.5 p.m. today. She left.", ["Dr. Lee came at 3.5 p.m. today.", "She left."]),
        ("See No. 5 and e.g. Fig. 2. Done.", ["See No. 5 and e.g. Fig. 2.", "Done."]),
        ("No. No. Yes.", ["No.", "No.", "Yes."]),
        ('He said "stop." She did.', ['He said "stop."', "She did."]),
        ("他说：“停。”她停了……然后走了。", ["他说：“停。”", "她停了……", "然后走了。"]),
        ("a hard\nwrapped line. Next\n\nA title\n\ntext", ["a hard\nwrapped line.", "Next", "A title", "text"]),
        ("", []),
    ],
)
def test_sentences_in_english_and_chinese(text: str, expected: list[str]) -> None:
    assert split(text) == expected


def test_levels_name_the_coarsest_separator_before_each_token() -> None:
    text = "a b. C\nd\n\ne学f"
    starts = np.array([text.index(c) for c in "abCde学f"])
    assert break_levels(text, starts).tolist() == [0, 1, 2, 3, 4, 0, 0]
    assert break_levels(text, np.array([0, 0, 2])).tolist() == [0, -1, 1]


def test_chunks_end_at_the_coarsest_separator_within_reach() -> None:
    text = "one two three\n\nfour five. Six seven eight nine ten\neleven twelve"
    assert texts(Recursive(8), text) == ["one two three", "four five. Six seven eight nine ten", "eleven twelve"]
    assert texts(Recursive(4), text) == [
        "one two three",
        "four five.",
        "Six seven eight nine",
        "ten\neleven twelve",
    ]
    assert texts(Recursive(100), text) == [text]


def test_the_overlap_begins_at_a_separator_too() -> None:
    text = "One two. Three four. Five six. Seven."
    assert texts(Recursive(6, 3), text) == ["One two. Three four.", "Three four. Five six.", "Five six. Seven."]


def test_words_are_cut_only_when_they_have_to_be() -> None:
    assert texts(Recursive(5), "ab cde fghijklm", CHARACTERS) == ["ab", "cde", "fghij", "klm"]


@settings(max_examples=200)
@given(st.text(alphabet=st.sampled_from("ab.学。 \n"), max_size=150), st.integers(1, 12), st.integers(0, 11))
def test_every_size_and_overlap(text: str, size: int, overlap: int) -> None:
    if overlap >= size:
        return
    found = pieces(Recursive(size, overlap), text, CHARACTERS)
    check(text, found)
    assert all(piece.span[1] - piece.span[0] <= size for piece in found)
    for before, after in pairwise(found):
        assert before.span[1] - after.span[0] <= overlap
    without = pieces(Recursive(size), text, CHARACTERS)
    assert all(before.span[1] <= after.span[0] for before, after in pairwise(without))


@pytest.mark.parametrize("name", ["minilm", "multilingual-e5"])
def test_s08_no_chunk_is_over_the_size_when_the_model_counts_it_by_itself(name: str) -> None:
    encoder = load_encoder(name)
    url = "https://example.org/" + "".join(f"{i * 7919 % 9973:x}-Qz{i}_" for i in range(300))[:1980]
    for text in (url, "学校规定学生每天早上八点到校。" * 40, "word " * 10 + url, "ﬃ㎏" * 200):
        found = pieces(Recursive(62, 8), text, encoder)
        check(text, found)
        counts = encoder.count_tokens([text[slice(*piece.span)] for piece in found])
        assert counts.max() + 2 <= 64
    assert WORDS.count_tokens([url]).tolist() != [1]


def test_tokens_that_begin_with_white_space_are_not_cut_off_their_words() -> None:
    encoder = load_encoder("multilingual-e5")
    text = "## Dangerous goods\n\nZeebrugge accepts them.\n\nHull accepts none of them at all today."
    assert texts(Recursive(12), text, encoder) == [
        "## Dangerous goods",
        "Zeebrugge accepts them.",
        "Hull accepts none of them at all today.",
    ]
    for chunker in (Window(3), Blocks(12)):
        assert all(chunk == chunk.strip() for chunk in texts(chunker, text, encoder))
        check(text, pieces(chunker, text, encoder))
