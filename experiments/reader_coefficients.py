"""How the extractive reader's coefficients were chosen: on the handbook's calibration questions, which nothing scores.

Coordinate ascent over a coarse grid, twice through all coefficients, from a start at which the bonuses and the malus do
not act and the weights stand in the middle; a value is changed only when that gains at least `MARGIN`. The objective is
the mean, over the contexts of BM25 and of the gold evidence, with and without the multilingual encoder, of the share of
answerable questions answered rightly, plus a tenth of the AUC of confidence between right answers and unanswerable
questions. Run it as ``python experiments/reader_coefficients.py``; it prints every step and the result.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rag_lab.contracts import Answer, Context, Question, Request
from rag_lab.definition import Experiment
from rag_lab.generation import support
from rag_lab.generation.calibration import calibrate
from rag_lab.generation.extractive import ExtractiveReader
from rag_lab.metrics.answers import contains
from rag_lab.preparation import Preparation
from rag_lab.progress import Progress
from rag_lab.retrieval.encoders import load_encoder
from rag_lab.store import Store
from rag_lab.variants.execute import Memory, run_variant

GRID = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
START = {
    "LEAD": 0.5,
    "TITLE": 0.5,
    "KIND": 0.0,
    "RANK": 0.0,
    "SIMILARITY": 0.5,
    "CROSS_LANGUAGE": 0.5,
    "NOTHING_NEW": 1.0,
}
WITH_ENCODER = ("SIMILARITY", "CROSS_LANGUAGE")
AUC_WEIGHT = 0.1
MARGIN = 0.005


def goodness(
    reader: ExtractiveReader, questions: Sequence[Question], asked: Sequence[Request], contexts: Sequence[Context]
) -> float:
    """Share answered rightly, plus a tenth of the AUC where it is defined."""
    made = reader.generate(asked, contexts, np.full(len(asked), 200, dtype=np.int32))
    outcomes = [completion.outcome for completion in made]
    can = np.array([question.answerable is not False for question in questions])
    right = np.array(
        [
            isinstance(o, Answer) and bool(q.answers) and contains(o.text, q.answers)
            for o, q in zip(outcomes, questions, strict=True)
        ]
    )
    confidence = [getattr(outcome, "confidence", None) or 0.0 for outcome in outcomes]
    return float(right[can].mean()) + AUC_WEIGHT * calibrate(confidence, right, can).auc


def main() -> None:
    """Choose and print."""
    definition = Experiment.load("experiments/quickstart.yaml")
    run = Preparation(definition, Store.default(), Progress(False))
    questions = run.dataset.calibration
    texts = [document.text for document in run.dataset.documents]
    batch = run.batch(questions, ExtractiveReader())
    memory = Memory()
    contexts = [
        run_variant(run.variants[name], batch, run.budgets["main"], memory).contexts or ()
        for name in ("bm25", "gold_context")
    ]
    plain = ExtractiveReader(idf=support.background_idf(texts))
    aided = ExtractiveReader(idf=support.background_idf(texts), encoder=load_encoder("multilingual-e5"))

    def objective(name: str | None = None) -> float:
        readers = (aided,) if name in WITH_ENCODER else (plain, aided)
        return float(np.mean([goodness(r, questions, batch.requests, c) for r in readers for c in contexts]))

    chosen = dict(START)
    for name, value in chosen.items():
        setattr(support, name, value)
    print(f"start {objective():.4f}")
    for turn in (1, 2):
        for name in chosen:
            best, best_value = objective(name), chosen[name]
            for value in GRID:
                setattr(support, name, value)
                if (found := objective(name)) >= best + (MARGIN if best_value == chosen[name] else 1e-9):
                    best, best_value = found, value
            chosen[name] = best_value
            setattr(support, name, best_value)
            print(f"turn {turn}: {name} = {best_value} ({best:.4f})")
    print(f"end {objective():.4f}: {chosen}")


if __name__ == "__main__":
    main()
