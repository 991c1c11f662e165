"""From what a source read to a `Dataset`: check, count, choose a split, draw questions."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from rag_lab.contracts import Document, GoldSpan, Question, RagLabError
from rag_lab.datasets.dataset import Dataset, Integrity
from rag_lab.datasets.drawing import draw, hold_out
from rag_lab.datasets.jsonl import Judgment, Record
from rag_lab.datasets.records import (
    RIGHTS_KEYS,
    Repairs,
    accepted_answers,
    document_of,
    gold_of,
    metadata_of,
    question_of,
    record_id,
)
from rag_lab.datasets.settings import Settings

DEFAULT_SPLIT = "test"
CALIBRATION_SPLIT = "dev"
EXAMPLES = 5
LANGUAGE_SHARE = 0.01

Built = TypeVar("Built", Document, Question)


@dataclass
class Collection:
    """What a source read, before any check: records as they stand, and judgments by split."""

    name: str
    documents: list[Record]
    queries: list[Record]
    judgments: dict[str, list[Judgment]] = field(default_factory=dict)
    answers: list[Record] = field(default_factory=list)
    settings: Settings = field(default_factory=Settings)
    skipped: list[str] = field(default_factory=list)
    policies: Path | None = None


class Findings:
    """Counts what is wrong and keeps the first ids of each kind."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.ids: dict[str, list[str]] = defaultdict(list)

    def add(self, name: str, found: str | Iterable[str]) -> None:
        """Count one id, or each of several, under the name of an `Integrity` field."""
        for one in (found,) if isinstance(found, str) else found:
            self.counts[name] += 1
            if len(self.ids[name]) < EXAMPLES:
                self.ids[name].append(one)


def build(
    collection: Collection, split: str = DEFAULT_SPLIT, limit: int | None = None, seed: int = 0, calibration: int = 0
) -> Dataset:
    """Check a collection and take the questions of one split.

    `limit` draws that many questions by `seed`. Calibration questions are those of the split "dev"; where there is
    none, `calibration` of them (at most half) are drawn by `seed` and leave the scored questions.
    """
    if limit is not None and limit < 1:
        raise RagLabError(f"limit: {limit} questions cannot be drawn; give 1 or more")
    findings, repairs, settings = Findings(), Repairs(), collection.settings
    declared = any(RIGHTS_KEYS & metadata_of(record, ()).keys() for record in collection.documents)
    documents = _documents(collection.documents, declared, settings, findings, repairs)
    questions, with_gold = _questions(collection, declared, documents, findings, repairs)
    members = _members(collection, questions)
    if not collection.queries:
        raise RagLabError(f"dataset {collection.name}: it has no questions; add some to queries.jsonl")
    if split not in members or not (members[split] or collection.judgments.get(split)):
        known = ", ".join(sorted(members)) or "none"
        raise RagLabError(f"dataset {collection.name}: it has no split {split!r}; its splits: {known}")

    def of_split(name: str, findings: Findings) -> tuple[dict[str, Question], dict[str, dict[str, int]]]:
        judged = _qrels(collection, name, documents, questions, findings)
        known = {query_id: questions[query_id] for query_id in members.get(name, ())}
        return {
            query_id: question if query_id in with_gold else _with_judged_gold(question, judged.get(query_id, {}))
            for query_id, question in known.items()
        }, judged

    asked, qrels = of_split(split, findings)
    spare = {} if split == CALIBRATION_SPLIT else of_split(CALIBRATION_SPLIT, Findings())[0]
    held_out = {query_id: question for query_id, question in spare.items() if query_id not in asked}
    integrity = _integrity(collection, documents, questions, members, split, qrels, findings, repairs)
    if not held_out:
        asked, held_out = hold_out(asked, calibration, seed)
    chosen = draw(asked, limit, seed)
    kept_qrels = {query_id: qrels[query_id] for query_id in chosen if query_id in qrels}
    ordered = [documents[document_id] for document_id in sorted(documents)]
    corpus_fingerprint = _hash(ordered)
    return Dataset(
        name=collection.name,
        split=split,
        documents=ordered,
        questions=list(chosen.values()),
        qrels=kept_qrels,
        integrity=integrity,
        rights="declared" if declared else "open",
        languages=_languages(ordered),
        fingerprint=_hash([corpus_fingerprint, *chosen.values(), "calibration", *held_out.values(), kept_qrels]),
        corpus_fingerprint=corpus_fingerprint,
        splits=tuple(sorted(members)),
        calibration=list(held_out.values()),
        remove_identical_ids=settings.remove_identical_ids,
        zone=settings.zone,
        policies=collection.policies,
        licence=settings.licence,
        source=settings.source,
    )


def _documents(
    records: list[Record], declared: bool, settings: Settings, findings: Findings, repairs: Repairs
) -> dict[str, Document]:
    first = _distinct(records, "document", findings)
    documents = {document_id: document_of(record, declared, settings, repairs) for document_id, record in first.items()}
    empty = (d.document_id for d in documents.values() if not d.text.strip() and not d.title.strip())
    findings.add("empty_documents", empty)
    return documents


def _questions(
    collection: Collection, declared: bool, documents: Mapping[str, Document], findings: Findings, repairs: Repairs
) -> tuple[dict[str, Question], set[str]]:
    """All questions by id, and the ids of those whose evidence, or the lack of it, an answers record states."""
    first = _distinct(collection.queries, "query", findings)
    asked = {
        query_id: question_of(record, declared, collection.settings, repairs) for query_id, record in first.items()
    }
    texts = {document_id: document.text for document_id, document in documents.items()}
    seen: set[str] = set()
    with_gold: set[str] = set()
    for record in collection.answers:
        query_id = record_id(record)
        if query_id not in asked:
            findings.add("answers_to_missing_queries", query_id)
        elif query_id in seen:
            findings.add("duplicate_answers", query_id)
        else:
            seen.add(query_id)
            if {"gold", "gold_spans"} & record.fields.keys() or record.fields.get("answerable") is False:
                with_gold.add(query_id)
            asked[query_id] = _answered(asked[query_id], record, collection.settings, texts, findings, repairs)
    return {query_id: asked[query_id] for query_id in sorted(asked)}, with_gold


def _answered(
    question: Question,
    record: Record,
    settings: Settings,
    texts: Mapping[str, str],
    findings: Findings,
    repairs: Repairs,
) -> Question:
    """The question with what its answers record knows; further fields of the record join the metadata."""
    answerable = record.fields.get("answerable")
    if answerable is not None and not isinstance(answerable, bool):
        raise RagLabError(f"{record.place}: answerable is {answerable!r}; it must be true or false")
    wordings, empty = accepted_answers(record)
    findings.add("empty_answers", [question.query_id] * empty)
    gold, dangling = gold_of(record, texts, repairs)
    findings.add("dangling_gold", dangling)
    evidence = record.fields.get("evidence") or settings.evidence
    evidence = evidence or ("all" if record.fields.get("supporting_facts") else "any")
    if evidence not in ("any", "all"):
        raise RagLabError(f"{record.place}: evidence is {evidence!r}; it must be 'any' or 'all'")
    further = metadata_of(record, ("answers", "answerable", "gold", "gold_spans", "answer_spans", "evidence"))
    if answerable is False and wordings:
        further["answers"] = list(wordings)
        wordings = ()
    return replace(
        question,
        answers=wordings,
        answerable=answerable,
        gold=gold,
        evidence=evidence,
        metadata={**question.metadata, **further},
    )


def _members(collection: Collection, questions: Mapping[str, Question]) -> dict[str, list[str]]:
    """Ids of the questions of each split, sorted.

    A question belongs to the split that its record states, else to those that judge it. One that nobody judged but
    that has an answers record belongs to the split "test", or to the only one there is.
    """
    home = DEFAULT_SPLIT
    if collection.judgments and DEFAULT_SPLIT not in collection.judgments:
        home = next(iter(collection.judgments)) if len(collection.judgments) == 1 else ""
    judged = {split: {judgment.query_id for judgment in rows} for split, rows in collection.judgments.items()}
    answered = {record_id(record) for record in collection.answers}
    members: dict[str, list[str]] = {split: [] for split in judged}
    for query_id, question in questions.items():
        stated = question.metadata.get("split")
        splits = [stated] if isinstance(stated, str) else [split for split in judged if query_id in judged[split]]
        if not splits and home and (query_id in answered or not (judged or answered)):
            splits = [home]
        for split in splits:
            members.setdefault(split, []).append(query_id)
    return members


def _qrels(
    collection: Collection,
    split: str,
    documents: Mapping[str, Document],
    questions: Mapping[str, Question],
    findings: Findings,
) -> dict[str, dict[str, int]]:
    """Judgments of a split by question and document, both sorted; the highest grade of a repeated pair counts."""
    qrels: dict[str, dict[str, int]] = {}
    for query_id, document_id, grade in collection.judgments.get(split, ()):
        if query_id not in questions:
            findings.add("judgments_to_missing_queries", query_id)
            continue
        if collection.settings.remove_identical_ids and query_id == document_id:
            findings.add("identical_judgments_removed", query_id)
            continue
        row = qrels.setdefault(query_id, {})
        if document_id in row:
            name = "duplicate_judgments" if row[document_id] == grade else "conflicting_judgments"
            findings.add(name, f"{query_id} {document_id}")
        elif document_id not in documents:
            findings.add("dangling_judgments", f"{query_id} {document_id}")
        row[document_id] = max(grade, row.get(document_id, grade))
    return {query_id: dict(sorted(qrels[query_id].items())) for query_id in sorted(qrels)}


def _with_judged_gold(question: Question, judged: Mapping[str, int]) -> Question:
    """The question with its relevant documents as evidence."""
    return replace(question, gold=tuple(GoldSpan(document_id) for document_id, grade in judged.items() if grade > 0))


def _distinct(records: list[Record], kind: str, findings: Findings) -> dict[str, Record]:
    """The first record of each id. A repetition is counted as duplicate or, with other content, as conflicting."""
    first: dict[str, Record] = {}
    for record in records:
        key = record_id(record)
        if key not in first:
            first[key] = record
        elif first[key].fields == record.fields:
            findings.add(f"duplicate_{kind}_ids", key)
        else:
            findings.add(f"conflicting_{kind}_ids", key)
    return first


def _integrity(
    collection: Collection,
    documents: Mapping[str, Document],
    questions: Mapping[str, Question],
    members: Mapping[str, list[str]],
    split: str,
    qrels: Mapping[str, Mapping[str, int]],
    findings: Findings,
    repairs: Repairs,
) -> Integrity:
    placed = {query_id for ids in members.values() for query_id in ids}
    findings.add("questions_without_judgments", (query_id for query_id in members[split] if query_id not in qrels))
    findings.add("queries_in_no_split", (query_id for query_id in questions if query_id not in placed))
    findings.add("identical_ids", (query_id for query_id in members[split] if query_id in documents))
    findings.add("skipped_lines", collection.skipped)
    grades = Counter(grade for row in qrels.values() for grade in row.values())
    examples = {
        **findings.ids,
        "removed_nuls": repairs.nul_ids[:EXAMPLES],
        "replaced_surrogates": repairs.surrogate_ids[:EXAMPLES],
    }
    return Integrity(
        documents=len(documents),
        queries=len(questions),
        questions=len(members[split]),
        judgments=grades.total(),
        removed_nuls=repairs.nuls,
        replaced_surrogates=repairs.surrogates,
        grades=dict(sorted(grades.items())),
        examples={name: tuple(ids) for name, ids in sorted(examples.items()) if ids},
        **findings.counts,
    )


def _languages(documents: list[Document]) -> list[str]:
    """Languages of at least 1 % of the documents, most frequent first: one odd page makes no bilingual corpus."""
    counts = Counter(document.language for document in documents if document.language)
    common = [code for code, n in counts.items() if n >= LANGUAGE_SHARE * len(documents)]
    return sorted(common, key=lambda code: (-counts[code], code))


def _hash(parts: Iterable[Any]) -> str:
    """SHA-256 over the parts as canonical JSON, one a line."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(json.dumps(part, sort_keys=True, default=_plain).encode())
        digest.update(b"\n")
    return digest.hexdigest()


def _plain(value: Any) -> Any:
    """A record as its fields, an instant as text."""
    if is_dataclass(value):
        return {f.name: getattr(value, f.name) for f in fields(value)}
    return str(value)
