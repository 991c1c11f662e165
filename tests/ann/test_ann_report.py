"""The report on a study of indexes: what it says of given figures, in every form."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pypdfium2
import pytest
from example_ann import SIZES, results, search

from rag_lab import reports
from rag_lab.ann.results import frame
from rag_lab.reports.ann import build, verdict
from rag_lab.reports.ann_figures import draw
from rag_lab.reports.blocks import Facts, Paragraph, Table
from rag_lab.reports.numbers import NBSP, data_size


def test_the_verdict_names_the_fastest_and_the_smallest_that_find_enough() -> None:
    assert [sentence.replace(NBSP, " ") for sentence in verdict(results())] == [
        "Among 50,000 vectors, HNSW32 at efSearch 128 is the fastest that finds 95 % of the 10 nearest: 0.970 [0.960, "
        "0.980] in 1.2 ms a question, where comparing all takes 25.0 ms.",
        "Of those that find as much, SQ8 takes the least memory beside the vectors: 20.0 MB; the vectors themselves "
        "take 76.8 MB.",
        "Among 1,000 vectors, HNSW32 at efSearch 128 is the fastest that finds 95 % of the 10 nearest: 0.970 [0.960, "
        "0.980] in 1.2 ms a question, where comparing all takes only 0.50 ms.",
    ]


def test_where_no_index_finds_enough_the_verdict_says_so() -> None:
    found = results()
    found.searches = frame("searches", [search(1000, "HNSW32", 64, 0.5, 1.0), search(1000, "HNSW32", 128, 0.6, 2.0)])
    found.study["sizes"] = [1000]
    assert [sentence.replace(NBSP, " ") for sentence in verdict(found)] == [
        "Among 1,000 vectors, no index finds 95 % of the 10 nearest at the breadths tried; the most is 0.600 [0.590, "
        "0.610] by HNSW32 at efSearch 128."
    ]
    found.searches = frame("searches", [search(1000, "Flat", 0, 1.0, 1.0)])
    assert verdict(found) == ()


def test_cautions_name_warnings_few_questions_and_what_exact_search_did() -> None:
    found = results(warnings=["the machine was busy"])
    found.collection["queries"] = 20
    assert [text.replace(NBSP, " ") for text in build(found).cautions] == [
        "the machine was busy.",
        "Only 20 questions: intervals are wide, and the 95th percentile is rough.",
        "Some searches returned too few rows for some questions, which were then compared with every vector: "
        "IVF64,PQ48 at nprobe 8 among 1,000 vectors (3), IVF64,PQ48 at nprobe 8 among 50,000 vectors (3). Their recall "
        "and time are partly those of exact search.",
    ]
    alone = results(searches=frame("searches", [search(size, "SQ8", 0, 1.0, 1.0) for size in SIZES]))
    assert build(alone).cautions == ()


def test_tables_give_every_search_and_what_was_built_instead() -> None:
    sections = {section.anchor: section for section in build(results()).sections}
    assert list(sections) == ["collection", "recall", "costs", "likeness", "reproduce"]
    tables = [block for block in sections["recall"].blocks if isinstance(block, Table)]
    assert [table.caption for table in tables] == ["1,000 vectors", "50,000 vectors"]
    lines = [[one.lines for one in row] for row in tables[1].rows]
    assert lines[2] == [
        ("HNSW32",),
        ("128",),
        ("0.970", f"[0.960,{NBSP}0.980]"),
        ("1.2",),
        ("2.4",),
        ("833",),
    ]
    assert lines[3][0] == ("IVF64,PQ48", "built as IVF25,PQ48")
    assert lines[0][1] == ("–",)
    assert tables[1].note == "too few vectors."
    assert tables[1].breaks == (1, 3, 4)
    costs = next(block for block in sections["costs"].blocks if isinstance(block, Table))
    assert [[one.lines[0] for one in row] for row in costs.rows][1] == [
        "HNSW32", "50,000", "1.00 MB", "90.0 MB", "76.8 MB", "3.0",
    ]  # fmt: skip
    assert len(costs.rows) == 6


def test_likeness_states_the_widest_gap_of_recall() -> None:
    section = next(section for section in build(results()).sections if section.anchor == "likeness")
    text, table = section.blocks
    assert isinstance(text, Paragraph)
    assert isinstance(table, Table)
    assert "20,000 real vectors against 20,000 of which 20.0% are made" in text.text
    assert "differs from that among real ones by 0.030 at most (recall@10, SQ8)" in text.text
    assert [row[3].lines[0] for row in table.rows] == ["−0.200", "−0.020", "+0.030"]
    assert table.breaks == (1,)


def test_likeness_of_exact_search_alone_says_nothing_of_recall() -> None:
    found = results()
    found.likeness = found.likeness[found.likeness["measure"] == "local dimension, passages"]
    section = next(section for section in build(found).sections if section.anchor == "likeness")
    assert isinstance(section.blocks[0], Paragraph)
    assert section.blocks[0].text.endswith("as at the largest size.")


def test_without_made_vectors_nothing_is_said_of_them() -> None:
    found = results(likeness=frame("likeness", []))
    found.collection["real"] = 60_000
    document = build(found)
    assert "likeness" not in [section.anchor for section in document.sections]
    assert document.key_facts == Facts(
        (("Vectors, at most", "50,000"), ("Dimensions", "384"), ("Questions", "300"), ("Threads", "1"))
    )
    assert not any("made" in getattr(block, "text", "") for block in document.sections[0].blocks)


def test_figures_are_whole_and_the_same_twice() -> None:
    first, second = draw(results()), draw(results())
    assert list(first) == ["recall", "costs"]
    assert first == second
    for svg, png in first.values():
        assert ElementTree.fromstring(svg).tag.endswith("svg")
        assert png.startswith(b"\x89PNG")


def test_the_report_is_written_beside_its_figures_and_texts_stay_texts(tmp_path: Path) -> None:
    written = reports.write(results(), tmp_path)
    assert set(written) == {"html", "pdf", "figures/recall", "figures/costs"}
    page = written["html"].read_text(encoding="utf-8")
    assert "Which &lt;index&gt;?" in page
    assert "HNSW32" in page
    document = pypdfium2.PdfDocument(written["pdf"].read_bytes())
    text = "".join(document[i].get_textpage().get_text_bounded() for i in range(len(document)))
    assert "Which <index>?" in text
    assert "Are made vectors like real ones?" in text


@pytest.mark.parametrize(
    "value, text",
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.00 kB"), (999_600, "1.00 MB"), (1.536e9, "1.54 GB"), (None, "–")],
)
def test_bytes_are_written_in_three_digits(value: Any, text: str) -> None:
    assert data_size(value) == text
