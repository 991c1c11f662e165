"""A whole study on a small dataset: what it measures, keeps, goes on with and refuses."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

import rag_lab
from rag_lab.ann import sweep
from rag_lab.ann.definition import AnnStudy
from rag_lab.ann.results import COLUMNS, AnnResults
from rag_lab.ann.tables import waiting_warnings
from rag_lab.ann.vectors import Vectors
from rag_lab.contracts import Encoder, RagLabError
from rag_lab.corpus.deny import DenyList
from rag_lab.preparation import Preparation
from rag_lab.progress import Progress
from rag_lab.store import Store

Study = Callable[..., AnnResults]
TIMES = ["latency_ms_p50", "latency_ms_p95", "queries_per_s", "build_s", "ram_bytes", "waiting"]


def test_a_row_for_each_size_index_breadth_and_k(study: Study) -> None:
    found = study()
    table = found.searches
    assert list(table.columns) == list(COLUMNS["searches"])
    keys = table[["size", "index", "breadth", "k"]]
    per_size = [("Flat", 0), ("HNSW8", 10), ("HNSW8", 40), ("IVF64,Flat", 1), ("IVF64,Flat", 4), ("SQ8", 0)]
    assert keys.to_numpy().tolist() == [
        [size, index, breadth, k] for size in (200, 300, 900) for index, breadth in per_size for k in (1, 10)
    ]
    assert (table["n"] == 15).all()
    assert (table.loc[table["index"] == "Flat", "recall"] == 1).all()
    assert ((table["ci_low"] <= table["recall"]) & (table["recall"] <= table["ci_high"])).all()
    assert (table["vector_bytes"] == table["size"] * 32 * 4).all()
    assert (table["latency_ms_p50"] <= table["latency_ms_p95"]).all()
    built = table.loc[table["index"] == "IVF64,Flat"].groupby("size")["built"].first().to_dict()
    assert built == {200: "IVF5,Flat", 300: "IVF7,Flat", 900: "IVF23,Flat"}
    assert table.loc[(table["index"] == "SQ8") & (table["size"] == 200), "built"].unique().tolist() == ["Flat"]
    assert found.collection["real"] == 300
    assert found.collection["breadth_of"] == {"Flat": "", "HNSW8": "efSearch", "IVF64,Flat": "nprobe", "SQ8": ""}


def test_likeness_compares_real_vectors_with_as_many_made_ones(study: Study) -> None:
    table = study().likeness
    assert list(table.columns) == list(COLUMNS["likeness"])
    real, made = (table[table["vectors"] == kind] for kind in ("real", "made"))
    assert real["measure"].tolist() == made["measure"].tolist()
    assert set(table["size"]) == {300}
    assert "recall@10, HNSW8 at 40" in real["measure"].tolist()
    assert "local dimension, questions" in real["measure"].tolist()
    assert not any("Flat" in name and "IVF" not in name for name in real["measure"])
    assert study(sizes=[200, 300]).likeness.empty


def test_too_few_real_vectors_to_compare_with_is_said(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "FEWEST_PARENTS", 400)
    found = study()
    assert found.likeness.empty
    assert any("300 real ones are too few to compare with" in warning for warning in found.warnings)


def test_a_size_below_k_has_as_many_neighbours_as_it_has_vectors(study: Study) -> None:
    table = study(sizes=[4], indexes=["Flat", "HNSW8", "IVF64,Flat"]).searches
    assert table["recall"].tolist() == [1.0] * 6


def test_a_second_run_measures_nothing_and_says_the_same(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    first = study()
    monkeypatch.setattr(sweep, "measure", None)
    second = study()
    pd.testing.assert_frame_equal(first.searches, second.searches)
    pd.testing.assert_frame_equal(first.likeness, second.likeness)


def test_another_store_gives_the_same_figures_but_for_times(study: Study, tmp_path: Path) -> None:
    first, second = study(), study(store=Store(tmp_path), threads=2)
    pd.testing.assert_frame_equal(first.searches.drop(columns=TIMES), second.searches.drop(columns=TIMES))
    pd.testing.assert_frame_equal(first.likeness, second.likeness)
    other = study(store=Store(tmp_path), seed=4)
    assert not first.searches["recall"].equals(other.searches["recall"])


def test_an_interrupted_run_goes_on(study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[str] = []
    measure = sweep.measure

    def counted(task: Any, factory: str, *rest: Any) -> Any:
        if len(measured) == 5:
            raise KeyboardInterrupt
        measured.append(f"{len(task.passages)} {factory}")
        return measure(task, factory, *rest)

    monkeypatch.setattr(sweep, "measure", counted)
    with pytest.raises(KeyboardInterrupt):
        study(store=Store(tmp_path))
    assert measured == ["200 Flat", "200 HNSW8", "200 IVF64,Flat", "200 SQ8", "300 Flat"]
    measured[:] = []
    monkeypatch.setattr(
        sweep, "measure", lambda task, factory, *rest: measured.append(factory) or measure(task, factory, *rest)
    )
    found = study(store=Store(tmp_path))
    # Three are left at 300, four at 900, and the approximate ones each on real and made vectors.
    assert len(measured) == 3 + 4 + 3 + 3
    monkeypatch.undo()
    assert len(found.searches) == 36


def test_a_killed_run_leaves_nothing_broken(study: Study, store: Store, tmp_path: Path) -> None:
    """A kill while an index is weighed leaves a temporary folder, which the next run sweeps away."""
    code = (
        "import os, sys; from pathlib import Path; from rag_lab.store import temporary\n"
        "with temporary(Path(sys.argv[1])) as at: (at / 'index.faiss').write_text('x'); os.kill(os.getpid(), 9)"
    )
    (tmp_path / "ann").mkdir()
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "ann")], check=False)
    assert len(list((tmp_path / "ann").glob("tmp-*"))) == 1
    study(store=Store(tmp_path), sizes=[200])
    assert list((tmp_path / "ann").glob("tmp-*")) == []


def test_what_was_kept_and_is_damaged_is_measured_again(study: Study, tmp_path: Path) -> None:
    first = study(store=Store(tmp_path), sizes=[200])
    for path in (tmp_path / "ann").rglob("measured.json"):
        path.write_bytes(path.read_bytes()[:-70])
    second = study(store=Store(tmp_path), sizes=[200])
    pd.testing.assert_frame_equal(first.searches.drop(columns=TIMES), second.searches.drop(columns=TIMES))


def test_denied_documents_are_in_no_collection(
    words: Path, hash_encoder: Encoder, study: Study, tmp_path: Path
) -> None:
    store = Store(tmp_path)
    experiment = AnnStudy.read({"dataset": words, "sizes": [9], "indexes": ["Flat"]}).experiment()
    work = Preparation(experiment, store, Progress(False))
    everything = Vectors(work, 0).real
    assert len(everything) == 300
    DenyList(store).deny(work.corpus, ["d007", "d100"], "test", by="test")
    left = Vectors(Preparation(experiment, store, Progress(False)), 0).real
    gone = hash_encoder.encode_passages([d.text for d in work.dataset.documents if d.document_id in ("d007", "d100")])
    assert len(left) == 298
    assert not (left[:, None] == gone).all(axis=2).any()
    assert (everything[:, None] == gone).all(axis=2).any(axis=0).all()
    assert study(store=store, sizes=[298]).collection["real"] == 298


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"indexes": ["NONSENSE"]}, r"'NONSENSE' does not work for vectors of 32 dimensions"),
        ({"indexes": [{"SQ8": [4]}]}, r"^indexes\.SQ8: visits every row, so it has no breadth; remove \[4\]$"),
        ({"sizes": [10**8]}, r"^sizes: 100,000,000 vectors .* take about 44\.8 GB, and .* take at most [\d,]+$"),
        ({"dataset": "nowhere"}, r"^dataset 'nowhere': not found"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_measured(
    study: Study, fields: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "measure", None)
    monkeypatch.setattr("rag_lab.ann.vectors.available_bytes", lambda: 10**9)
    with pytest.raises(RagLabError, match=message):
        study(**fields)


def test_one_memory_limit_is_the_free_memory(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    """900 vectors of 32 dimensions in 3.5 copies are 403,200 bytes."""
    monkeypatch.setattr("rag_lab.ann.vectors.available_bytes", lambda: 403_199)
    with pytest.raises(RagLabError, match=r"take at most 899$"):
        study()
    monkeypatch.setattr("rag_lab.ann.vectors.available_bytes", lambda: 403_200)
    assert len(study().searches) == 36


def test_a_study_is_given_as_a_file_a_mapping_or_fields(
    study: Study, words: Path, store: Store, tmp_path: Path
) -> None:
    whole = study(sizes=[200])
    fields = {"dataset": str(words), "sizes": [200], "k": [1, 10], "queries": 15, "seed": 3}
    fields["indexes"] = ["Flat", {"HNSW8": [10, 40]}, {"IVF64,Flat": [1, 4]}, "SQ8"]
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(fields))
    for given in (path, str(path), fields, AnnStudy.read(fields)):
        found = rag_lab.ann_study(given, store=store, progress=False)
        pd.testing.assert_frame_equal(found.searches, whole.searches)
    assert rag_lab.ann_study(path, store=store, progress=False, k=[1]).searches["k"].unique().tolist() == [1]
    with pytest.raises(RagLabError, match="must be an AnnStudy, a mapping or a path, not int"):
        rag_lab.ann_study(3)


def test_waiting_for_the_processor_is_a_warning() -> None:
    rows = [{"size": 1, "index": name, "waiting": share} for name, share in (("a", 0.0), ("a", 0.2), ("b", 0.1))]
    assert waiting_warnings(rows) == [
        "other work had the processor for more than 10% of the time in which 1 of 2 indexes were searched, so times "
        "may be too long: best run the study where nothing else runs"
    ]
    assert waiting_warnings(rows[2:]) == []


def test_results_survive_their_folder(study: Study, tmp_path: Path) -> None:
    found = study()
    found.save(tmp_path / "run")
    read = AnnResults.load(tmp_path / "run")
    pd.testing.assert_frame_equal(read.searches, found.searches)
    pd.testing.assert_frame_equal(read.likeness, found.likeness)
    assert (read.study, read.collection, read.warnings) == (found.study, found.collection, found.warnings)
    assert AnnResults.is_in(tmp_path / "run")
    assert not AnnResults.is_in(tmp_path)


def test_a_folder_that_is_no_study_is_named(study: Study, tmp_path: Path) -> None:
    with pytest.raises(RagLabError, match=r"results\.json: no complete results"):
        AnnResults.load(tmp_path)
    study(sizes=[200]).save(tmp_path)
    text = (tmp_path / "results.json").read_text()
    (tmp_path / "results.json").write_text(text.replace('"ann-1"', '"ann-0"'))
    with pytest.raises(RagLabError, match="not of a study of indexes, or of another version"):
        AnnResults.load(tmp_path)
    (tmp_path / "results.json").write_text(text.replace('"collection"', '"colection"'))
    with pytest.raises(RagLabError, match="lacks 'collection'"):
        AnnResults.load(tmp_path)


def test_the_made_share_grows_with_the_size_and_real_vectors_come_first(
    words: Path, study: Study, store: Store
) -> None:
    work = Preparation(
        AnnStudy.read({"dataset": words, "sizes": [9], "indexes": ["Flat"]}).experiment(), store, Progress(False)
    )
    vectors = Vectors(work, 0)
    small, large = (vectors.of(sweep.Collection(size, 300), 900).vectors for size in (200, 900))
    assert np.array_equal(small, vectors.real[:200])
    assert np.array_equal(large[:300], vectors.real)
    assert np.shares_memory(vectors.of(sweep.Collection(400, 300), 900).vectors, large)
