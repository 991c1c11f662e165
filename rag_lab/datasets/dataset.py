"""What a loaded dataset is: documents, questions, judgments, and an account of what was found while reading them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from rag_lab.contracts import Document, Question

RANKING_METRICS = ("nDCG@10", "Recall@100", "RR", "AP", "P@5", "Hit@5")
WORDING_METRICS = ("EM", "F1", "Correct")
EVIDENCE_METRICS = ("AssembledRecall", "GoldInContext", "RelevantTokens", "CitationPrecision", "CitationRecall")
ABSTENTION_METRICS = ("AbstentionPrecision", "AbstentionRecall")

MOST_LABELS = 5
QUESTIONS_PER_LABEL = 10


@dataclass(frozen=True)
class Integrity:
    """Counts of what a collection holds and of what is wrong with it, before any question is drawn.

    `documents` and `queries` count distinct ids; `judgments`, `grades`, the dangling ones and the questions without
    judgments concern the chosen split. A *conflicting* duplicate repeats an id with other content: the first is kept.
    `examples` maps the name of a count to the first ids that it is about.
    """

    documents: int = 0
    queries: int = 0
    questions: int = 0
    judgments: int = 0
    duplicate_document_ids: int = 0
    conflicting_document_ids: int = 0
    duplicate_query_ids: int = 0
    conflicting_query_ids: int = 0
    duplicate_judgments: int = 0
    conflicting_judgments: int = 0
    duplicate_answers: int = 0
    empty_documents: int = 0
    dangling_judgments: int = 0
    judgments_to_missing_queries: int = 0
    questions_without_judgments: int = 0
    queries_in_no_split: int = 0
    answers_to_missing_queries: int = 0
    dangling_gold: int = 0
    empty_answers: int = 0
    identical_ids: int = 0
    identical_judgments_removed: int = 0
    removed_nuls: int = 0
    replaced_surrogates: int = 0
    skipped_lines: int = 0
    grades: Mapping[int, int] = field(default_factory=dict)
    examples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Counts, grades and examples in a form that JSON takes."""
        counts: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        counts["grades"] = {str(grade): n for grade, n in self.grades.items()}
        counts["examples"] = {name: list(ids) for name, ids in self.examples.items()}
        return counts

    def warnings(self) -> list[str]:
        """One sentence for each finding that changes what a score means."""
        return [
            sentence.format(n=getattr(self, name), ids=", ".join(self.examples.get(name, ())))
            for name, sentence in _FINDINGS.items()
            if getattr(self, name)
        ]


_FINDINGS = {
    "dangling_judgments": "{n} judgments name documents that the corpus lacks ({ids}), so full recall is out of reach",
    "judgments_to_missing_queries": "{n} judgments name questions that do not exist ({ids}) and are left out",
    "conflicting_document_ids": "{n} documents repeat an id with other content ({ids}); the first one is kept",
    "conflicting_query_ids": "{n} questions repeat an id with other content ({ids}); the first one is kept",
    "conflicting_judgments": "{n} judgments repeat a pair with another grade ({ids}); the highest grade is kept",
    "dangling_gold": "{n} gold passages name documents that the corpus lacks ({ids})",
    "answers_to_missing_queries": "{n} answer records name questions that do not exist ({ids}) and are left out",
    "removed_nuls": "{n} NUL characters were removed from texts ({ids})",
    "replaced_surrogates": "{n} lone surrogates were replaced by U+FFFD ({ids})",
    "skipped_lines": "{n} broken lines were skipped ({ids})",
}


@dataclass(frozen=True)
class Dataset:
    """Documents (by id), the questions of one split (by id), their judgments, and questions for calibration.

    `rights` is "open" when the collection states none (every document is public in the tenant "default" and every
    question is asked from it) and "declared" as soon as one document states some: what is then left out admits nobody.
    `fingerprint` covers documents, questions, calibration questions and judgments as they are here;
    `corpus_fingerprint` the documents alone. With `remove_identical_ids` a document whose id equals the question's id
    is not an answer to it and leaves the ranking. `calibration` questions are never scored. `policies` is the file that
    names the readers of the policies which documents refer to (`rag_lab.corpus.policies`).
    """

    name: str
    split: str
    documents: list[Document]
    questions: list[Question]
    qrels: dict[str, dict[str, int]]
    integrity: Integrity
    rights: Literal["open", "declared"]
    languages: list[str]
    fingerprint: str
    corpus_fingerprint: str
    splits: tuple[str, ...] = ()
    calibration: list[Question] = field(default_factory=list)
    remove_identical_ids: bool = False
    zone: str = "UTC"
    policies: Path | None = None
    licence: str = ""
    source: str = ""

    @property
    def has_qrels(self) -> bool:
        """Whether any question of the split is judged."""
        return bool(self.qrels)

    @property
    def has_answers(self) -> bool:
        """Whether accepted wordings are known for any question."""
        return any(question.answers for question in self.questions)

    @property
    def has_gold(self) -> bool:
        """Whether evidence is known for any question, as spans or as whole documents."""
        return any(question.gold for question in self.questions)

    @property
    def has_answerable(self) -> bool:
        """Whether some questions are known to have no answer here."""
        return any(question.answerable is False for question in self.questions)

    @property
    def answer_labels(self) -> tuple[str, ...]:
        """The labels, when the answers are a few labels (SUPPORT, CONTRADICT) and not wordings; else empty.

        Answers count as labels when there are at most 5 of them, each question has one, each label is upper case and
        there are at least 10 answered questions for each label.
        """
        answered = [question.answers for question in self.questions if question.answers]
        labels = sorted({answer for answers in answered for answer in answers})
        is_labelled = (
            0 < len(labels) <= MOST_LABELS
            and all(len(answers) == 1 for answers in answered)
            and all(label.isupper() and len(label) > 1 for label in labels)
            and len(answered) >= QUESTIONS_PER_LABEL * len(labels)
        )
        return tuple(labels) if is_labelled else ()

    @property
    def groups(self) -> dict[str, int]:
        """Number of questions in each group, by name."""
        return dict(sorted(Counter(question.group for question in self.questions).items()))

    def not_measured(self) -> dict[str, str]:
        """Metrics that this dataset cannot have, each with the reason."""
        missing: dict[str, str] = {}
        if not self.has_qrels:
            missing |= dict.fromkeys(RANKING_METRICS, "the dataset has no relevance judgments")
        if not self.has_answers:
            missing |= dict.fromkeys(WORDING_METRICS, "the dataset has no answers")
        elif self.answer_labels:
            labels = ", ".join(self.answer_labels)
            missing |= dict.fromkeys(WORDING_METRICS, f"the answers are labels ({labels}), not wordings")
        if not self.has_gold:
            missing |= dict.fromkeys(EVIDENCE_METRICS, "the dataset names no evidence")
        if not self.has_answerable:
            missing |= dict.fromkeys(ABSTENTION_METRICS, "no question is known to be unanswerable")
        return missing

    def summary(self) -> dict[str, Any]:
        """What results and reports say about the dataset."""
        return {
            "name": self.name,
            "split": self.split,
            "fingerprint": self.fingerprint,
            "corpus_fingerprint": self.corpus_fingerprint,
            "documents": len(self.documents),
            "queries": len(self.questions),
            "calibration_questions": len(self.calibration),
            "languages": list(self.languages),
            "groups": self.groups,
            "rights": self.rights,
            "remove_identical_ids": self.remove_identical_ids,
            "integrity": self.integrity.to_dict(),
            "not_measured": self.not_measured(),
            "licence": self.licence,
            "source": self.source,
        }
