"""Rows that hold a question, its context and its answer, as a collection of documents and questions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from rag_lab.contracts import RagLabError
from rag_lab.datasets.collection import Collection
from rag_lab.datasets.jsonl import Judgment, Record

USUAL = {
    "id": "id",
    "question": "question",
    "context": "context",
    "title": "title",
    "answers": "answers",
    "supporting_facts": "supporting_facts",
}


class _Documents:
    """Distinct contexts as documents, numbered within their title."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.records: dict[tuple[str, str], Record] = {}
        self.per_title: Counter[str] = Counter()

    def id_of(self, title: str, text: str) -> str:
        if (title, text) not in self.records:
            fields = {"_id": f"{title or 'context'}-{self.per_title[title]}", "title": title, "text": text}
            self.per_title[title] += 1
            self.records[title, text] = Record(self.file, len(self.records) + 1, fields)
        return str(self.records[title, text].fields["_id"])


def from_rows(
    name: str, file: str, rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str], split: str
) -> Collection:
    """A collection from rows in the manner of SQuAD (answers with offsets) or HotpotQA (titled sentences).

    A row without an answer in a table that states answers is unanswerable. `columns` renames the columns of `USUAL`.
    """
    names = {key: columns.get(key, usual) for key, usual in USUAL.items()}
    documents = _Documents(file)
    queries, answers, judgments = [], [], []
    for line, row in enumerate(rows, start=1):
        place = f"{file}:{line}"
        for key in ("question", "context"):
            if names[key] not in row:
                raise RagLabError(f"{place}: no column {names[key]!r}; name it under columns.rows.{key}")
        query_id = str(row.get(names["id"], line))
        text = str(row[names["question"]]).strip()
        is_sentences = isinstance(row[names["context"]], Mapping)
        known = (_from_sentences if is_sentences else _from_context)(row, names, documents, place)
        further = {key: row[key] for key in ("type", "level") if isinstance(row.get(key), str)}
        queries.append(Record(file, line, {"_id": query_id, "text": text, "metadata": further}))
        answers.append(Record(file, line, {"_id": query_id, **known}))
        judgments += [Judgment(query_id, document_id, 1) for document_id in known["gold"]]
    return Collection(name, list(documents.records.values()), queries, {split: judgments}, answers)


def _from_context(
    row: Mapping[str, Any], names: Mapping[str, str], documents: _Documents, place: str
) -> dict[str, Any]:
    """Answer and evidence of a SQuAD row: each answer's text stands at its offset, or the row is refused."""
    context = str(row[names["context"]])
    document_id = documents.id_of(str(row.get(names["title"]) or ""), context)
    texts, starts = _wordings(row.get(names["answers"]), place)
    spans = []
    for text, start in zip(texts, starts, strict=False):
        if context[start : start + len(text)] != text:
            raise RagLabError(f"{place}: the answer {text!r} does not stand at character {start} of its context")
        spans.append({"document": document_id, "start": start, "end": start + len(text)})
    is_stated = names["answers"] in row
    return {
        "answers": texts,
        "answerable": bool(texts) if is_stated else None,
        "gold": [document_id] if texts or not is_stated else [],
        "gold_spans": spans,
        "context": document_id,
    }


def _wordings(answers: Any, place: str) -> tuple[list[str], list[int]]:
    """Distinct wordings and, where given, their offsets."""
    if answers is None:
        return [], []
    if isinstance(answers, str):
        return [answers], []
    if isinstance(answers, Mapping):
        texts, starts = list(answers.get("text") or ()), list(answers.get("answer_start") or ())
        if starts and len(starts) != len(texts):
            raise RagLabError(f"{place}: {len(texts)} answers but {len(starts)} offsets")
        pairs = (
            list(dict.fromkeys(zip(texts, starts, strict=True))) if starts else [(t, 0) for t in dict.fromkeys(texts)]
        )
        return [text for text, _ in pairs], [start for _, start in pairs] if starts else []
    return [str(answer) for answer in dict.fromkeys(answers)], []


def _from_sentences(
    row: Mapping[str, Any], names: Mapping[str, str], documents: _Documents, place: str
) -> dict[str, Any]:
    """Answer and evidence of a HotpotQA row: every supporting sentence is needed, at its exact offsets."""
    ids: dict[str, str] = {}
    bounds: dict[str, list[tuple[int, int]]] = {}
    context = row[names["context"]]
    for title, sentences in zip(context["title"], context["sentences"], strict=True):
        ids[title] = documents.id_of(title, "".join(sentences))
        bounds[title], at = [], 0
        for sentence in sentences:
            bounds[title].append((at + len(sentence) - len(sentence.lstrip()), at + len(sentence)))
            at += len(sentence)
    facts = row.get(names["supporting_facts"]) or {"title": [], "sent_id": []}
    spans = []
    for title, number in zip(facts["title"], facts["sent_id"], strict=True):
        if title not in ids:
            raise RagLabError(f"{place}: the supporting fact names {title!r}, which is not in the context")
        # HotpotQA has a few facts whose sentence number is past the end: the document alone is then the evidence.
        if number < len(bounds[title]) and bounds[title][number][0] < bounds[title][number][1]:
            start, end = bounds[title][number]
            spans.append({"document": ids[title], "start": start, "end": end})
    answer = row.get(names["answers"], row.get("answer"))
    return {
        "answers": _wordings(answer, place)[0],
        "answerable": True if answer else None,
        "gold": list(dict.fromkeys(ids[title] for title in facts["title"])),
        "gold_spans": spans,
        "evidence": "all",
    }
