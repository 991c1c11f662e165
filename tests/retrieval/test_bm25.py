"""BM25 on Lucene: scores, normalisation, rights, robustness, and agreement with pyserini."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import unicodedata
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.contracts import RagLabError
from rag_lab.retrieval import lucene
from rag_lab.retrieval.bm25 import Bm25Index, build, index_version, normalise, update
from rag_lab.retrieval.jvm import java_string
from rag_lab.retrieval.row_index import Entries, Hits


def make(
    folder: Path, texts: Sequence[str], codes: Sequence[int | str] | None = None, language: str = "en"
) -> Bm25Index:
    build(folder, entries(texts, codes), language)
    return Bm25Index(folder)


def entries(
    texts: Sequence[str], codes: Sequence[int | str] | None = None, ids: Sequence[str] | None = None
) -> Entries:
    """One row a document, whose id sorts as its row unless `ids` are given."""
    names = ids or [f"{row:06}" for row in range(len(texts))]
    return Entries(texts, codes or ["0"] * len(texts), names, [0] * len(texts), prints(texts, names))


def prints(texts: Sequence[str], ids: Sequence[str]) -> npt.NDArray[np.int64]:
    """Fingerprints of rows."""
    named = [f"{name} {text}".encode("utf-8", "replace") for name, text in zip(ids, texts, strict=True)]
    hashed = [blake2b(one, digest_size=8) for one in named]
    return np.array([int.from_bytes(one.digest(), "big", signed=True) for one in hashed], dtype=np.int64)


def rows(hits: Hits, query: int = 0) -> list[int]:
    return [int(row) for row in hits.row[hits.query == query]]


def scores(hits: Hits, query: int = 0) -> list[float]:
    return [float(score) for score in hits.score[hits.query == query]]


ANIMALS = ["lion tiger", "lion", "tiger tiger zebra", "zebra", "lion lion lion"]


@pytest.fixture(scope="module")
def animals(tmp_path_factory: pytest.TempPathFactory) -> Bm25Index:
    return make(tmp_path_factory.mktemp("animals") / "index", ANIMALS, [0, 1, 0, 2, 1])


# --- scores ---------------------------------------------------------------------------------------------------------


def formula(tf: int, length: int, matching: int, documents: int, mean: float, k1: float, b: float) -> float:
    idf = math.log(1 + (documents - matching + 0.5) / (matching + 0.5))
    return idf * tf / (tf + k1 * (1 - b + b * length / mean))


@pytest.mark.parametrize("k1, b", [(0.9, 0.4), (1.2, 0.75), (0.0, 0.0), (2.0, 1.0)])
def test_scores_are_those_of_the_formula(animals: Bm25Index, k1: float, b: float) -> None:
    hits = animals.search(["lion"], 10, None, k1=k1, b=b)
    wanted = {
        0: formula(1, 2, 3, 5, 2.0, k1, b),
        1: formula(1, 1, 3, 5, 2.0, k1, b),
        4: formula(3, 3, 3, 5, 2.0, k1, b),
    }
    order = sorted(wanted, key=lambda row: (-round(wanted[row], 6), row))
    assert rows(hits) == order
    assert scores(hits) == pytest.approx([wanted[row] for row in order], rel=1e-6)


def test_a_term_given_twice_counts_twice(animals: Bm25Index) -> None:
    hits = animals.search(["tiger", "zebra", "tiger zebra tiger"], 10, None)
    tiger, zebra = (dict(zip(rows(hits, query), scores(hits, query), strict=True)) for query in (0, 1))
    both = dict(zip(rows(hits, 2), scores(hits, 2), strict=True))
    assert both[2] == pytest.approx(2 * tiger[2] + zebra[2], rel=1e-6)
    assert both[3] == pytest.approx(zebra[3], rel=1e-6)


def test_arrays_are_those_of_a_ranking(animals: Bm25Index) -> None:
    hits = animals.search(["zebra", "nothing here", "lion"], 10, None)
    assert (hits.query.dtype, hits.row.dtype, hits.score.dtype) == (np.int32, np.int32, np.float32)
    assert hits.ms.shape == (3,)
    assert (hits.ms > 0).all()
    ranking = hits.ranking("bm25")
    assert (ranking.channel, ranking.size, ranking.score.dtype) == ("bm25", 3, np.float64)
    assert [list(ranking.of(query)) for query in range(3)] == [[3, 2], [], [4, 1, 0]]


def test_ties_are_broken_by_row(tmp_path: Path) -> None:
    index = make(tmp_path / "index", ["same words"] * 30)
    hits = index.search(["words", "words"], np.array([30, 7]), None)
    assert rows(hits, 0) == list(range(30))
    assert rows(hits, 1) == list(range(7))
    assert len(set(scores(hits, 0))) == 1


def test_depth_cuts_the_same_ranking(animals: Bm25Index) -> None:
    query = "lion tiger zebra"
    whole = rows(animals.search([query], 1000, None))
    assert len(whole) == 5
    hits = animals.search([query] * 4, np.array([0, 1, 3, 5]), None)
    assert [rows(hits, position) for position in range(4)] == [whole[:0], whole[:1], whole[:3], whole]


def test_a_query_does_not_depend_on_its_batch_or_thread(animals: Bm25Index) -> None:
    queries = ["lion", "tiger zebra", "", "zebra lion lion", "tiger"] * 60
    batch = animals.search(queries, 3, [[0, 1]] * len(queries))
    with ThreadPoolExecutor(8) as pool:
        alone = list(pool.map(lambda query: animals.search([query], 3, [[1, 0]]), queries))
    for position, hits in enumerate(alone):
        assert rows(hits) == rows(batch, position)
        assert scores(hits) == scores(batch, position)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"depth": -1}, "depth"),
        ({"depth": np.array([1, 2])}, "depth"),
        ({"k1": -0.1}, "k1"),
        ({"k1": math.nan}, "k1"),
        ({"b": 1.5}, "b:"),
        ({"allowed_scopes": []}, "0 entries for 1 queries"),
        ({"allowed_scopes": ["01"]}, "'01' is one code"),
    ],
)
def test_wrong_arguments_are_named(animals: Bm25Index, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(RagLabError, match=message):
        animals.search(["lion"], **({"depth": 10, "allowed_scopes": None} | arguments))


# --- normalisation and analysis -------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", lucene.LANGUAGES)
def test_s04_one_word_in_two_encodings(tmp_path: Path, language: str) -> None:
    texts = ["Caf\u00e9 du Nord opens at seven", "Cafe\u0301 du Nord opens at seven", "２０２４年预算"]
    hits = make(tmp_path / "index", texts, language=language).search(
        ["caf\u00e9", "cafe\u0301", "2024年", "2024", "ＣＡＦÉ"], 10, None
    )
    assert rows(hits, 0) == rows(hits, 1) == rows(hits, 4) == [0, 1]
    assert len(set(scores(hits, 0) + scores(hits, 1) + scores(hits, 4))) == 1
    assert rows(hits, 2) == rows(hits, 3) == [2]


def test_normalise_folds_width_and_composes_and_nothing_else() -> None:
    assert normalise("ＡＢＣ１２３，ｶﾞ") == "ABC123,ガ"
    assert normalise("e\u0301") == "\u00e9"
    assert normalise("x² µ ﬁ … ½") == "x² µ ﬁ … ½"


@given(st.text())
def test_normalise_is_stable(text: str) -> None:
    once = normalise(text)
    assert normalise(once) == once
    assert unicodedata.is_normalized("NFC", once)
    assert normalise(unicodedata.normalize("NFD", text)) == normalise(unicodedata.normalize("NFC", text))


def test_index_and_query_share_one_analyser_family_22(tmp_path: Path) -> None:
    texts = ["He was running.", "The economies of scale", "Johnson's letters", "relational databases"]
    hits = make(tmp_path / "index", texts).search(["running", "economies", "johnson's", "Relations", "run"], 10, None)
    assert [rows(hits, query) for query in range(5)] == [[0], [1], [2], [3], [0]]
    assert (hits.score > 0).all()


@pytest.mark.parametrize("language", ["zh", "multilingual"])
def test_chinese_is_found_by_bigrams_family_21(tmp_path: Path, language: str) -> None:
    texts = [
        "北京大学的图书馆在校园中心",
        "上海交通大学的食堂",
        "今天开会。明天放假！",
        "the library of Peking University",
    ]
    hits = make(tmp_path / "index", texts, language=language).search(
        ["北京大学图书馆", "明天放假", "天气预报", "library"], 10, None
    )
    assert rows(hits, 0)[0] == 0
    assert rows(hits, 1) == [2]
    assert rows(hits, 2) == []
    assert rows(hits, 3) == [3]
    assert (hits.score > 0).all()


def test_multilingual_scores_english_as_english_does(tmp_path: Path) -> None:
    texts = [
        "The company's economies were running",
        "Cells, proteins (p53) & 3.5 mg/kg; it's",
        "a of the",
        "U.S. trial",
    ]
    queries = ["company economy", "the proteins of p53 3.5", "U.S. trials' cells"]
    english, mixed = (
        make(tmp_path / language, texts, language=language).search(queries, 10, None)
        for language in ("en", "multilingual")
    )
    np.testing.assert_array_equal(english.row, mixed.row)
    np.testing.assert_array_equal(english.score, mixed.score)


def test_characters_beyond_16_bits_stay_themselves(tmp_path: Path) -> None:
    texts = ["𠮷野家", "\u0bb7", "a 😀 smile", "nul\0byte"]
    hits = make(tmp_path / "index", texts, language="multilingual").search(["𠮷", "\u0bb7", "😀", "byte"], 10, None)
    assert [rows(hits, query) for query in range(4)] == [[], [1], [2], [3]]
    assert java_string("𠮷").length() == 2
    assert str(java_string("𠮷野😀\0").toString()) == "𠮷野😀\0"


# --- rights ---------------------------------------------------------------------------------------------------------


def test_s13_a_scope_that_is_empty_or_unknown_finds_nothing(animals: Bm25Index) -> None:
    hits = animals.search(["lion tiger zebra"] * 5, 10, [[], ["9"], [""], ["*"], ()])
    assert len(hits.row) == 0
    assert hits.ms.shape == (5,)


def test_s13_scopes_differ_by_query_and_leave_scores_alone(animals: Bm25Index) -> None:
    query = "lion tiger zebra"
    free = animals.search([query], 10, None)
    known = dict(zip(rows(free), scores(free), strict=True))
    scopes: list[list[int | str]] = [[0], ["1"], [2, 2, "unknown"], [1, 0], [2, 1, 0]]
    hits = animals.search([query] * 5, 10, scopes)
    allowed = [{0, 2}, {1, 4}, {3}, {0, 1, 2, 4}, {0, 1, 2, 3, 4}]
    for position, permitted in enumerate(allowed):
        assert rows(hits, position) == [row for row in rows(free) if row in permitted]
        assert scores(hits, position) == [known[row] for row in rows(hits, position)]
    assert animals.scopes == ("0", "1", "2")


def test_s13_without_a_known_term_a_filter_matches_nothing(animals: Bm25Index) -> None:
    assert len(animals.search(["unicorn", "", "the of"], 10, [[0], [0, 1], [1]]).row) == 0


WORDS = st.sampled_from(["lion", "tiger", "zebra", "the", "ibex", "北京"])
TEXTS = st.lists(st.lists(WORDS, max_size=6).map(" ".join), max_size=12)


@settings(max_examples=40, deadline=None)
@given(texts=TEXTS, query=st.lists(WORDS, max_size=4).map(" ".join), depth=st.integers(0, 15), data=st.data())
def test_a_filtered_search_is_the_search_without_forbidden_rows(
    texts: list[str], query: str, depth: int, data: st.DataObject
) -> None:
    codes = data.draw(st.lists(st.integers(0, 4), min_size=len(texts), max_size=len(texts)))
    scope = data.draw(st.sets(st.integers(0, 5)))
    with tempfile.TemporaryDirectory() as folder, make(Path(folder), texts, codes, "multilingual") as index:
        free = index.search([query], len(texts), None)
        hits = index.search([query], depth, [sorted(scope)])
    permitted = [(row, score) for row, score in zip(rows(free), scores(free), strict=True) if codes[row] in scope]
    assert list(zip(rows(hits), scores(hits), strict=True)) == permitted[:depth]


def test_no_text_is_stored(tmp_path: Path) -> None:
    make(tmp_path / "index", ["Confidential: the merger is on Friday"]).close()
    files = sorted(path for path in (tmp_path / "index").iterdir())
    assert files
    assert all(b"merger is on Friday" not in path.read_bytes() for path in files)
    assert "write.lock" not in [path.name for path in files]


# --- robustness -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("texts", [[], [""], ["", ""], ["word"], ["a", "b"], ["the", "of"], [" \n\t", "\0"]])
def test_tiny_and_empty_corpora_family_23(tmp_path: Path, texts: list[str]) -> None:
    with make(tmp_path / "index", texts) as index:
        assert index.size == len(texts)
        hits = index.search(["word", "", "a the", "unknown"], 1000, [["0"]] * 4)
    assert rows(hits, 0) == [row for row, text in enumerate(texts) if text == "word"]
    assert not any(rows(hits, query) for query in (1, 3))


def test_no_queries(animals: Bm25Index) -> None:
    hits = animals.search([], 10, [])
    assert (len(hits.query), len(hits.row), len(hits.score), len(hits.ms)) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    "query, found",
    [
        *[
            (query, [])
            for query in ("", " ", "?", "'", "{}", "\\", "*", "(((", "~2^3", "li*n", "l?on", "\ud800", "[a TO")
        ],
        *[
            (query, [0, 1, 4])
            for query in ('"lion', "lion'", "+lion AND (", "-lion", "NOT lion", "lion~2", "/lion/ {!x}")
        ],
    ],
)
def test_no_character_is_query_syntax_family_20(animals: Bm25Index, query: str, found: list[int]) -> None:
    hits = animals.search([query, query], 10, [[0, 1, 2], [1]])
    assert sorted(rows(hits, 0)) == found
    assert sorted(rows(hits, 1)) == [row for row in found if row != 0]


@settings(max_examples=150, deadline=None)
@given(query=st.text(max_size=40))
def test_any_text_is_a_query_family_20(animals: Bm25Index, query: str) -> None:
    hits = animals.search([query, query + " zebra"], 10, [[0, 2], [0, 2]])
    assert set(rows(hits, 0)) <= {0, 2, 3}
    assert (hits.score > 0).all()


def test_a_query_may_have_thousands_of_terms_family_20(tmp_path: Path) -> None:
    words = [f"w{number}" for number in range(5000)]
    index = make(tmp_path / "index", [" ".join(words), "w17", "other"], [0, 1, 1])
    hits = index.search([" ".join(words)] * 2, 10, [[0, 1], [1]])
    assert rows(hits, 0) == [0, 1]
    assert rows(hits, 1) == [1]


def test_long_tokens_and_many_codes(tmp_path: Path) -> None:
    index = make(tmp_path / "index", ["x" * 100_000] + ["word"] * 300, list(range(301)))
    assert rows(index.search(["word"], 1000, [range(200, 1000)])) == list(range(200, 301))


def test_rows_keep_their_order_over_many_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lucene, "RAM_BUFFER_MB", 0.2)
    texts = [f"word w{row} " + " ".join(f"x{row}y{extra}" for extra in range(20)) for row in range(700)]
    index = make(tmp_path / "index", texts)
    hits = index.search(["word", *[f"w{row}" for row in range(0, 700, 100)]], 2000, None)
    assert rows(hits, 0) == list(range(700))
    assert [rows(hits, query) for query in range(1, 8)] == [[row] for row in range(0, 700, 100)]


def test_an_index_is_read_by_several_processes(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from rag_lab.retrieval.bm25 import Bm25Index\n"
        "print(Bm25Index(Path(sys.argv[1])).search(['lion'], 10, [[1]]).row.tolist())"
    )
    folder = tmp_path / "index"
    with make(folder, ANIMALS, [0, 1, 0, 2, 1]):
        for path in folder.iterdir():
            path.chmod(0o444)
        folder.chmod(0o555)
        readers = [
            subprocess.Popen([sys.executable, "-c", program, folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for _ in range(2)
        ]
        answers = [reader.communicate(timeout=120) for reader in readers]
    folder.chmod(0o755)
    assert [answer for answer, _ in answers] == [b"[4, 1]\n"] * 2


# --- building and opening -------------------------------------------------------------------------------------------


def test_build_refuses_what_does_not_fit(tmp_path: Path) -> None:
    with pytest.raises(RagLabError, match="'de' has no BM25 analyser; choose one of en, zh, multilingual"):
        build(tmp_path / "a", entries(["x"]), "de")
    with pytest.raises(RagLabError, match="2 texts, 1 scopes, 2 document_ids"):
        entries(["x", "y"], ["0"])
    make(tmp_path / "b", ["x"])
    with pytest.raises(RagLabError, match="not empty"):
        build(tmp_path / "b", entries(["x"]), "en")


def test_a_failed_build_gives_up_its_lock(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    with pytest.raises(RagLabError, match=r"Lucene stopped at chunk 0 of document 000001: .*immense term"):
        build(folder, entries(["x", "y"], ["0", "s" * 40_000]), "en")
    with pytest.raises(RagLabError, match="no readable Lucene index"):
        Bm25Index(folder)
    broken: Any = ["x", None]
    for path in folder.iterdir():
        path.unlink()
    with pytest.raises(TypeError):
        build(folder, entries(broken), "en")
    for path in folder.iterdir():
        path.unlink()
    assert rows(make(folder, ["x"]).search(["x"], 1, None)) == [0]


def test_rows_out_of_order_or_of_other_content_are_found_after_building(tmp_path: Path) -> None:
    with pytest.raises(RagLabError, match="holds 2 of 2 documents in 1 segments, not 2 rows in order"):
        build(tmp_path / "order", entries(["x", "y"], ids=["b", "a"]), "en")
    make(tmp_path / "index", ["x", "y"]).close()
    for missing, expected in ((["000000"], ["x", "y"]), ([], ["y", "x"]), ([], ["x"])):
        ids = [f"{row:06}" for row in range(len(expected))]
        folder = tmp_path / f"{missing}{expected}"
        with pytest.raises(RagLabError, match=f"not {len(expected)} rows in order"):
            update(folder, tmp_path / "index", missing, entries([]), prints(expected, ids), "en")


# --- updates --------------------------------------------------------------------------------------------------------

BEFORE = {"a": "lion tiger", "c": "lion lion", "文": "zebra", "\uffee": "tiger", "𝔡": "lion"}
AFTER = {"a": "lion new", "b": "zebra lion", "文": "zebra", "\uffee": "tiger"}


def index_of(folder: Path, documents: dict[str, str]) -> Bm25Index:
    ids = sorted(documents)
    build(folder, entries([documents[name] for name in ids], ids=ids), "en")
    return Bm25Index(folder)


def updated(folder: Path, base: Path, gone: Sequence[str], more: dict[str, str], after: dict[str, str]) -> Bm25Index:
    added, ids = sorted(more), sorted(after)
    expected = prints([after[name] for name in ids], ids)
    update(folder, base, gone, entries([more[name] for name in added], ids=added), expected, "en")
    return Bm25Index(folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_an_updated_index_is_the_one_built_afresh_and_its_base_stays(tmp_path: Path) -> None:
    index_of(tmp_path / "base", BEFORE).close()
    before = contents(tmp_path / "base")
    more = {name: AFTER[name] for name in ("a", "b")}
    made = updated(tmp_path / "made", tmp_path / "base", ["a", "c", "𝔡", "absent"], more, AFTER)
    fresh = index_of(tmp_path / "fresh", AFTER)
    assert contents(tmp_path / "base") == before
    for query in ("lion", "lion tiger new zebra", "tiger", "zebra zebra"):
        ours, theirs = made.search([query], 10, None), fresh.search([query], 10, None)
        assert (rows(ours), scores(ours)) == (rows(theirs), scores(theirs))
    assert made.scopes == fresh.scopes


def test_nothing_of_a_deleted_document_is_left_in_the_files(tmp_path: Path) -> None:
    index_of(tmp_path / "base", {"keep": "lion", "secretid": "qwzx"}).close()
    assert any(b"qwzx" in data for data in contents(tmp_path / "base").values())
    updated(tmp_path / "made", tmp_path / "base", ["secretid"], {}, {"keep": "lion"}).close()
    assert not any(b"qwzx" in data or b"secretid" in data for data in contents(tmp_path / "made").values())
    assert "write.lock" not in contents(tmp_path / "made")


def test_an_update_may_empty_and_fill_an_index(tmp_path: Path) -> None:
    index_of(tmp_path / "base", BEFORE).close()
    assert updated(tmp_path / "none", tmp_path / "base", list(BEFORE), {}, {}).size == 0
    again = updated(tmp_path / "again", tmp_path / "none", [], BEFORE, BEFORE)
    assert rows(again.search(["lion"], 10, None)) == rows(index_of(tmp_path / "x", BEFORE).search(["lion"], 10, None))


def test_a_killed_update_leaves_a_base_that_still_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index_of(tmp_path / "base", BEFORE).close()
    before = contents(tmp_path / "base")
    monkeypatch.setattr(lucene, "set_commit_data", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        updated(tmp_path / "made", tmp_path / "base", ["a"], {}, AFTER)
    assert contents(tmp_path / "base") == before
    with pytest.raises(RagLabError, match="no-such: no such folder, and so no index to go on from"):
        updated(tmp_path / "other", tmp_path / "no-such", ["a"], {}, AFTER)


def test_s13_documents_are_picked_and_barred_inside_the_search(animals: Bm25Index) -> None:
    everything = [[0, 1, 2]] * 5
    only = [None, ["000001", "000004", "absent"], None, ["000000"], []]
    without = [None, None, ["000004"], ["000000"], None]
    hits = animals.search(["lion"] * 5, 1, everything, only=only, without=without)
    assert [rows(hits, query) for query in range(5)] == [[4], [4], [1], [], []]
    free = animals.search(["lion"], 10, None)
    hits = animals.search(["lion"] * 2, 10, [[1], [0]], only=[["000000", "000001"]] * 2)
    assert [rows(hits, query) for query in range(2)] == [[1], [0]]
    assert scores(hits, 0) == [score for row, score in zip(rows(free), scores(free), strict=True) if row == 1]
    with pytest.raises(RagLabError, match="only: 1 entries for 2 queries"):
        animals.search(["x", "y"], 1, None, only=[None])
    with pytest.raises(RagLabError, match="without: '000000' is one document id"):
        animals.search(["x"], 1, None, without=["000000"])


def test_opening_names_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RagLabError, match="no such folder"):
        Bm25Index(tmp_path / "absent")
    (tmp_path / "empty").mkdir()
    with pytest.raises(RagLabError, match="no readable Lucene index"):
        Bm25Index(tmp_path / "empty")
    make(tmp_path / "damaged", ["x"]).close()
    (tmp_path / "damaged" / "segments_1").write_bytes(b"\x3f\xd7\x6c\x17short")
    with pytest.raises(RagLabError, match="no readable Lucene index") as caught:
        Bm25Index(tmp_path / "damaged")
    assert "\n" not in str(caught.value)
    monkeypatch.setattr("rag_lab.retrieval.bm25.ANALYSIS", "0")
    make(tmp_path / "old", ["x"]).close()
    monkeypatch.undo()
    with pytest.raises(RagLabError, match="written by another version"):
        Bm25Index(tmp_path / "old")


def test_an_index_knows_its_language_and_version(tmp_path: Path) -> None:
    assert make(tmp_path / "index", ["北京"], language="zh").language == "zh"
    assert index_version("zh").startswith("lucene-")
    assert len({index_version(language) for language in lucene.LANGUAGES}) == 3
    with pytest.raises(RagLabError, match="language"):
        index_version("fr")


# --- the shared collections -----------------------------------------------------------------------------------------


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


class Collection:
    """Documents in row order, questions and judgments of a folder, and the index over them."""

    def __init__(self, folder: Path, index: Path, language: str) -> None:
        documents = sorted(read(folder / "corpus.jsonl"), key=lambda document: document["_id"])
        self.ids = [str(document["_id"]) for document in documents]
        self.texts = [f"{document.get('title') or ''} {document['text']}" for document in documents]
        queries = read(folder / "queries.jsonl")
        self.query_ids = [str(query["_id"]) for query in queries]
        self.queries = [query["text"] for query in queries]
        self.qrels: dict[str, dict[str, int]] = {}
        for line in sorted((folder / "qrels").glob("*.tsv"))[0].read_text().splitlines()[1:]:
            query, document, grade = line.split("\t")
            self.qrels.setdefault(query, {})[document] = int(grade)
        build(index, entries(self.texts, ids=self.ids), language)
        self.index = Bm25Index(index)

    def measure(self, depth: int, *names: str) -> dict[str, float]:
        import pytrec_eval

        hits = self.index.search(self.queries, depth, None)
        run = {
            name: {self.ids[row]: score for row, score in zip(rows(hits, query), scores(hits, query), strict=True)}
            for query, name in enumerate(self.query_ids)
        }
        values = pytrec_eval.RelevanceEvaluator(self.qrels, set(names)).evaluate(run)
        return {
            name: sum(value[name.replace(".", "_")] for value in values.values()) / len(self.qrels) for name in names
        }


@pytest.fixture(scope="module")
def scifact(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Collection:
    return Collection(shared_data / "scifact", tmp_path_factory.mktemp("scifact") / "index", "en")


@pytest.mark.shared
def test_scifact_quality_is_the_published_one(scifact: Collection) -> None:
    values = scifact.measure(1000, "ndcg_cut.10", "recall.100")
    assert values["ndcg_cut.10"] == pytest.approx(0.6789, abs=0.0005)
    assert values["recall.100"] == pytest.approx(0.9253, abs=0.0005)


@pytest.mark.shared
def test_scifact_filters_leave_ranks_and_scores_alone(scifact: Collection, tmp_path: Path) -> None:
    codes = np.random.default_rng(7).integers(0, 50, len(scifact.ids))
    index = make(tmp_path / "index", scifact.texts, [int(code) for code in codes])
    free = index.search(scifact.queries, len(scifact.ids), None)
    hits = index.search(scifact.queries, 1000, [range(query % 40) for query in range(len(scifact.queries))])
    for query in range(len(scifact.queries)):
        wanted = [
            pair for pair in zip(rows(free, query), scores(free, query), strict=True) if codes[pair[0]] < query % 40
        ]
        assert list(zip(rows(hits, query), scores(hits, query), strict=True)) == wanted[:1000]


@pytest.mark.shared
@pytest.mark.slow
def test_scifact_ranks_and_scores_are_those_of_pyserini(
    scifact: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stock = pyserini_hits(scifact, tmp_path / "stock", monkeypatch, "en")
    hits = scifact.index.search(scifact.queries, 1000, None)
    for query, name in enumerate(scifact.query_ids):
        assert [scifact.ids[row] for row in rows(hits, query)] == [document for document, _ in stock[name]]
        assert scores(hits, query) == pytest.approx([score for _, score in stock[name]], abs=1e-4)


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.parametrize("name, published", [("rgb-zh", 0.6627), ("cmrc2018-dev", 0.9834)])
def test_chinese_quality_and_ranks(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, published: float
) -> None:
    collection = Collection(shared_data / name, tmp_path / "index", "zh")
    assert collection.measure(100, "ndcg_cut.10")["ndcg_cut.10"] == pytest.approx(published, abs=0.01)
    stock = pyserini_hits(collection, tmp_path / "stock", monkeypatch, "zh")
    hits = collection.index.search(collection.queries, 1000, None)
    differing = [
        query
        for query, query_id in enumerate(collection.query_ids)
        if [collection.ids[row] for row in rows(hits, query)] != [document for document, _ in stock[query_id]]
    ]
    assert differing == []


def pyserini_hits(
    collection: Collection, folder: Path, monkeypatch: pytest.MonkeyPatch, language: str
) -> dict[str, list[tuple[str, float]]]:
    """pyserini's own index of the raw texts, searched its own way at depth 1000."""
    monkeypatch.setenv("OPENAI_API_KEY", os.environ.get("OPENAI_API_KEY", "unused"))
    from pyserini.index.lucene import LuceneIndexer
    from pyserini.search.lucene import LuceneSearcher

    arguments = ["-index", str(folder), *(["-language", language] if language != "en" else [])]
    indexer = LuceneIndexer(args=arguments, threads=1)
    indexer.add_batch_dict(
        [{"id": name, "contents": text} for name, text in zip(collection.ids, collection.texts, strict=True)]
    )
    indexer.close()
    searcher = LuceneSearcher(str(folder))
    searcher.set_bm25(0.9, 0.4)
    if language != "en":
        searcher.set_language(language)
    found = searcher.batch_search(collection.queries, collection.query_ids, k=1000, threads=2)
    return {name: [(hit.docid, hit.score) for hit in hits] for name, hits in found.items()}
