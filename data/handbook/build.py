"""Build the handbook dataset from its sources, or check that sources and built files agree.

``python data/handbook/build.py`` reads ``documents/`` and ``questions/`` and writes the built files: ``corpus.jsonl``,
``queries.jsonl``, ``qrels/dev.tsv``, ``qrels/test.tsv``, ``answers.jsonl`` and the table of counts in ``README.md``.
With ``--check`` nothing is written; every broken rule and every line that differs is printed on one line.
The exit status is 1 if there is any, else 0.

Instants follow the corpus zone, UTC: a date without a time means midnight, and a document is valid until the end of
the day in `valid_until`. Spans count code points of the text as built.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import SequenceMatcher
from itertools import combinations
from pathlib import Path
from typing import Any

import yaml

try:
    from yaml import CSafeLoader as SafeLoader
except ImportError:
    from yaml import SafeLoader  # type: ignore[assignment]

GROUPS = (
    "identifier",
    "paraphrase",
    "multilingual",
    "multi-step",
    "global",
    "just-updated",
    "rights-limited",
    "time-dependent",
    "conflicting",
    "unanswerable",
)
TENANT_GROUPS = {
    "meridian": {"staff", "managers", "hr", "finance", "engineering", "legal"},
    "kestrel": {"staff", "drivers", "dispatch", "finance", "hr", "legal"},
}
LANGUAGES = ("en", "zh")
KINDS = ("policy", "notice", "product", "incident", "guide", "table", "code", "minutes", "faq")
TRUSTS = ("primary", "copy", "article")
SPLITS = ("dev", "test")
MIN_DOCUMENTS, MIN_QUESTIONS, MIN_UNANSWERABLE = 150, 200, 30
NEAR_DUPLICATE = 0.5
COUNTS = re.compile(r"(?<=<!-- counts -->\n).*?(?=<!-- end of counts -->)", re.DOTALL)
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


class SourceLoader(SafeLoader):
    """YAML in which dates stay as they were written."""


SourceLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in SafeLoader.yaml_implicit_resolvers.items()
}


@dataclass(frozen=True)
class Source:
    """A document as written: front matter and body, with the path for messages."""

    path: str
    meta: Mapping[str, Any]
    text: str

    @property
    def id(self) -> str:
        return str(self.meta["id"])

    def permits(self, principal: Mapping[str, Any]) -> bool:
        """Whether a principal may read the document: same tenant, and public or one group in common."""
        if self.meta["tenant"] != principal["tenant"]:
            return False
        return self.meta.get("public") is True or bool(set(self.meta.get("groups", ())) & set(principal["groups"]))

    def valid_at(self, time: datetime) -> bool:
        """Whether the document has been published and is in force at an instant."""
        start = max(instant(self.meta[key]) for key in ("published", "valid_from") if key in self.meta)
        until = self.meta.get("valid_until")
        return start <= time and (until is None or time < instant(until, end=True))


def instant(written: str, end: bool = False) -> datetime:
    """A date or ISO time in UTC; `end` gives the first instant after a date."""
    moment = datetime.fromisoformat(written)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment + timedelta(days=1) if end and DATE.fullmatch(written) else moment


def read_document(path: Path, name: str) -> Source:
    """Split a file into front matter and body; raises ValueError when the front matter is missing."""
    content = path.read_text(encoding="utf-8")
    parts = re.fullmatch(r"---\n(.*?)\n---\n(.*)", content, re.DOTALL)
    if parts is None:
        raise ValueError("front matter between two lines '---' is missing")
    meta = yaml.load(parts[1], Loader=SourceLoader)
    if not isinstance(meta, dict):
        raise ValueError("front matter is not a mapping")
    return Source(name, meta, parts[2].strip() + "\n")


def document_problems(source: Source) -> Iterator[str]:
    """Broken rules of one document's front matter."""
    meta = source.meta
    for key in ("id", "title", "version", "published", "source_uri", "tenant", "language", "kind", "trust"):
        if not isinstance(meta.get(key), str) or not meta[key]:
            yield f"{key} must be a non-empty string (quote numbers)"
    folders = Path(source.path).parts
    if (meta.get("id"), meta.get("tenant"), meta.get("language")) != (Path(source.path).stem, folders[1], folders[2]):
        yield "id, tenant and language must be those of the path"
    for key, known in (("tenant", TENANT_GROUPS), ("language", LANGUAGES), ("kind", KINDS), ("trust", TRUSTS)):
        if meta.get(key) not in known:
            yield f"{key} {meta.get(key)!r} is not one of {', '.join(known)}"
    groups = meta.get("groups")
    if (meta.get("public") is True) == bool(groups) or ("public" in meta and meta["public"] is not True):
        yield "either 'public: true' or a list of groups"
    if unknown := set(groups or ()) - TENANT_GROUPS.get(str(meta.get("tenant")), set()):
        yield f"unknown groups {sorted(unknown)}"
    if not str(meta.get("source_uri")).startswith(f"handbook://{meta.get('tenant')}/"):
        yield "source_uri must start with handbook://<tenant>/"
    for key in ("published", "valid_from", "valid_until"):
        try:
            instant(meta.get(key, "2026-01-01"))
        except (TypeError, ValueError):
            yield f"{key} {meta.get(key)!r} is no date"
    if not source.text.strip():
        yield "the body is empty"


def read_documents(root: Path, problems: list[str]) -> dict[str, Source]:
    """Usable documents by id, sorted; what is wrong with the others goes to `problems`."""
    found: dict[str, Source] = {}
    for path in sorted((root / "documents").rglob("*.md")):
        name = path.relative_to(root).as_posix()
        try:
            source = read_document(path, name)
        except (ValueError, yaml.YAMLError) as error:
            problems.append(f"{name}: {' '.join(str(error).split())}")
            continue
        wrong = [f"{name}: {problem}" for problem in document_problems(source)]
        if not wrong and source.id in found:
            wrong = [f"{name}: duplicate id {source.id}, also in {found[source.id].path}"]
        if not wrong:
            found[source.id] = source
        problems += wrong
    return dict(sorted(found.items()))


def question_problems(question: Mapping[str, Any]) -> Iterator[str]:
    """Broken rules of one question that can be seen without the documents."""
    for key in ("text", "language", "time", "group"):
        if not isinstance(question.get(key), str) or not question[key]:
            yield f"{key} must be a non-empty string"
    if question.get("group") not in GROUPS:
        yield f"group {question.get('group')!r} is not known"
    for key, known in (("language", LANGUAGES), ("evidence", ("all", "any")), ("split", SPLITS)):
        if question.get(key) not in known:
            yield f"{key} {question.get(key)!r} is not one of {', '.join(known)}"
    principal = question.get("principal") or {}
    if set(principal) != {"tenant", "groups"} or principal["tenant"] not in TENANT_GROUPS:
        yield "principal needs a known tenant, and groups"
    elif unknown := set(principal["groups"]) - TENANT_GROUPS[principal["tenant"]]:
        yield f"unknown groups {sorted(unknown)}"
    for key in ("answers", "denied"):
        if not all(isinstance(item, str) and item.strip() for item in question.get(key, ())):
            yield f"{key} must be strings (quote numbers)"
    if any(set(piece) != {"document", "quote"} for piece in question.get("gold", ())):
        yield "every piece of gold needs a document and a quote, and nothing else"
    if not isinstance(question.get("answerable"), bool):
        yield "answerable must be true or false"
    elif not question["answerable"] == bool(question.get("gold")) == bool(question.get("answers")):
        yield "an answerable question needs answers and gold, an unanswerable one has neither"
    try:
        if datetime.fromisoformat(str(question.get("time"))).tzinfo is None:
            yield "time needs a zone"
    except ValueError:
        yield f"time {question.get('time')!r} is no instant"


def read_questions(root: Path, problems: list[str]) -> dict[str, dict[str, Any]]:
    """Usable questions by id, sorted. The group is the file's name up to the underscore."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted((root / "questions").glob("*.yaml")):
        name = path.relative_to(root).as_posix()
        try:
            entries = yaml.load(path.read_text(encoding="utf-8"), Loader=SourceLoader) or []
        except yaml.YAMLError as error:
            problems.append(f"{name}: {' '.join(str(error).split())}")
            continue
        for entry in entries:
            question = {"group": path.stem.partition("_")[0], **entry}
            wrong = [f"{name}: {question.get('id')}: {problem}" for problem in question_problems(question)]
            if question.get("id") in found:
                wrong.append(f"{name}: duplicate id {question['id']}")
            if not wrong:
                found[str(question["id"])] = question
            problems += wrong
    return dict(sorted(found.items()))


def gold_problems(question: Mapping[str, Any], documents: Mapping[str, Source]) -> Iterator[str]:
    """Broken rules between a question and the documents: quotes, rights, validity, answers, denied documents."""
    pieces: Sequence[Mapping[str, str]] = question.get("gold", ())
    time = instant(question["time"])
    for piece in pieces:
        document = documents.get(piece["document"])
        if document is None:
            yield f"gold document {piece['document']} does not exist"
            continue
        if (times := document.text.count(piece["quote"])) != 1:
            yield f"quote found {times} times in {document.id}: {piece['quote'][:60]!r}"
        if not document.permits(question["principal"]):
            yield f"gold document {document.id} is not permitted to the principal"
        if not document.valid_at(time):
            yield f"gold document {document.id} is not in force at {question['time']}"
        if question["group"] == "multilingual" and document.meta["language"] == question["language"]:
            yield f"multilingual question and gold document {document.id} are in the same language"
    said = " ".join(piece["quote"] for piece in pieces).casefold()
    literal = any(answer.casefold() in said for answer in question.get("answers", ()))
    if pieces and not (literal or question.get("derived") or question["group"] == "multilingual"):
        yield "no answer stands in a quote (a count or combination needs 'derived: true')"
    for denied in question.get("denied", ()):
        if denied not in documents:
            yield f"denied document {denied} does not exist"
        elif documents[denied].permits(question["principal"]):
            yield f"denied document {denied} is permitted to the principal"


def shingles(text: str) -> frozenset[tuple[str, ...]]:
    """Runs of five tokens; a token is a word or one Chinese character."""
    tokens = re.findall(r"[\u4e00-\u9fff]|[^\W\u4e00-\u9fff]+", text.casefold())
    return frozenset(zip(*(tokens[start:] for start in range(5)), strict=False))


def duplicate_problems(documents: Mapping[str, Source]) -> Iterator[str]:
    """Pairs of documents whose bodies share half of their shingles (Jaccard coefficient)."""
    sets = {name: shingles(document.text) for name, document in documents.items()}
    holders: dict[tuple[str, ...], list[str]] = {}
    for name, held in sets.items():
        for shingle in held:
            holders.setdefault(shingle, []).append(name)
    shared = Counter(pair for names in holders.values() for pair in combinations(names, 2))
    for (left, right), common in sorted(shared.items()):
        if common / (len(sets[left]) + len(sets[right]) - common) >= NEAR_DUPLICATE:
            yield f"{documents[left].path}: near duplicate of {documents[right].path}"


def count_problems(documents: Mapping[str, Source], questions: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Missing quantity: documents, questions, unanswerable ones, and both splits in every group."""
    unanswerable = sum(question["group"] == "unanswerable" for question in questions.values())
    for what, have, need in (
        ("documents", len(documents), MIN_DOCUMENTS),
        ("questions", len(questions), MIN_QUESTIONS),
        ("unanswerable questions", unanswerable, MIN_UNANSWERABLE),
    ):
        if have < need:
            yield f"{have} {what}, at least {need} are needed"
    have_groups = {(question["group"], question["split"]) for question in questions.values()}
    for group in GROUPS:
        for split in SPLITS:
            if (group, split) not in have_groups:
                yield f"group {group} has no question in split {split}"
    asked = Counter(
        (question["text"], question["time"], json.dumps(question["principal"], sort_keys=True))
        for question in questions.values()
    )
    yield from (f"question asked twice by the same principal: {text}" for (text, *_), n in asked.items() if n > 1)


def line(record: Mapping[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False, sort_keys=True) + "\n"


def corpus_record(source: Source) -> dict[str, Any]:
    """One line of ``corpus.jsonl``."""
    keys = ("tenant", "language", "kind", "version", "published", "valid_from", "valid_until", "trust", "source_uri")
    metadata = {key: source.meta.get(key) for key in keys}
    metadata |= {"public": source.meta.get("public", False), "groups": source.meta.get("groups", [])}
    return {"_id": source.id, "title": source.meta["title"], "text": source.text, "metadata": metadata}


def query_record(name: str, question: Mapping[str, Any]) -> dict[str, Any]:
    """One line of ``queries.jsonl``."""
    metadata = {key: question[key] for key in ("group", "language", "principal", "time")}
    return {"_id": name, "text": question["text"], "metadata": metadata}


def gold_ids(question: Mapping[str, Any]) -> list[str]:
    return sorted({piece["document"] for piece in question.get("gold", ())})


def answer_record(name: str, question: Mapping[str, Any], documents: Mapping[str, Source]) -> dict[str, Any]:
    """One line of ``answers.jsonl``."""
    spans = []
    for piece in question.get("gold", ()):
        start = documents[piece["document"]].text.find(piece["quote"])
        spans.append({"document": piece["document"], "start": start, "end": start + len(piece["quote"])})
    return {
        "_id": name,
        "answers": question.get("answers", []),
        "answerable": question["answerable"],
        "gold": gold_ids(question),
        "gold_spans": spans,
        "evidence": question["evidence"],
        "split": question["split"],
        "denied": question.get("denied", []),
        "upcoming": question.get("upcoming"),
    }


def counts_table(documents: Mapping[str, Source], questions: Mapping[str, Mapping[str, Any]]) -> str:
    """The Markdown tables of README.md."""
    held = Counter((source.meta["tenant"], source.meta["language"]) for source in documents.values())
    asked = Counter((question["group"], question["split"]) for question in questions.values())
    rows = ["| tenant | English documents | Chinese documents |", "|---|---|---|"]
    rows += [f"| {tenant} | {held[tenant, 'en']} | {held[tenant, 'zh']} |" for tenant in TENANT_GROUPS]
    rows += ["", "| question group | test | dev |", "|---|---|---|"]
    rows += [f"| {group} | {asked[group, 'test']} | {asked[group, 'dev']} |" for group in GROUPS]
    total = [sum(question["split"] == split for question in questions.values()) for split in ("test", "dev")]
    rows += [f"| all ({len(documents)} documents) | {total[0]} | {total[1]} |"]
    return "\n".join(rows) + "\n"


def built_files(
    root: Path, documents: Mapping[str, Source], questions: Mapping[str, Mapping[str, Any]]
) -> dict[str, str]:
    """What every built file has to contain."""
    files = {
        "corpus.jsonl": "".join(line(corpus_record(source)) for source in documents.values()),
        "queries.jsonl": "".join(line(query_record(*item)) for item in questions.items()),
        "answers.jsonl": "".join(line(answer_record(*item, documents)) for item in questions.items()),
    }
    for split in SPLITS:
        pairs = [
            f"{name}\t{document}\t1\n"
            for name, question in questions.items()
            if question["split"] == split
            for document in gold_ids(question)
        ]
        files[f"qrels/{split}.tsv"] = "query-id\tcorpus-id\tscore\n" + "".join(pairs)
    readme = (root / "README.md").read_text(encoding="utf-8")
    files["README.md"] = COUNTS.sub(lambda _: counts_table(documents, questions), readme)
    return files


def difference_problems(root: Path, files: Mapping[str, str]) -> Iterator[str]:
    """Places in which a file on disk is not what would be built, one for each run of changed lines."""
    for name, content in files.items():
        path = root / name
        if not path.is_file():
            yield f"{name}: missing; run build.py"
            continue
        have, want = path.read_bytes().decode("utf-8").split("\n"), content.split("\n")
        for change, start, end, *_ in SequenceMatcher(None, have, want, autojunk=False).get_opcodes():
            if change != "equal":
                yield f"{name}: lines {start + 1} to {max(end, start + 1)} differ from the sources; run build.py"


def main(arguments: Sequence[str] | None = None) -> int:
    """Build, or check with ``--check``; returns the exit status."""
    parser = argparse.ArgumentParser(description="Build or check the handbook dataset.")
    parser.add_argument("--check", action="store_true", help="write nothing, report differences and broken rules")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent, help="folder of the dataset")
    options = parser.parse_args(arguments)
    root: Path = options.root
    problems: list[str] = []
    documents = read_documents(root, problems)
    questions = read_questions(root, problems)
    for name, question in questions.items():
        problems += [f"{name}: {problem}" for problem in gold_problems(question, documents)]
    problems += [*duplicate_problems(documents), *count_problems(documents, questions)]
    if not problems:
        files = built_files(root, documents, questions)
        if options.check:
            problems += difference_problems(root, files)
        else:
            for name, content in files.items():
                (root / name).parent.mkdir(exist_ok=True)
                (root / name).write_bytes(content.encode("utf-8"))
    print("\n".join(problems) if problems else f"{len(documents)} documents, {len(questions)} questions: in order")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
