"""One raw record into one `Document` or one `Question`."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rag_lab.contracts import Acl, Document, GoldSpan, Principal, Question, RagLabError, SectionRights, Span
from rag_lab.datasets.jsonl import Record
from rag_lab.datasets.languages import language_of
from rag_lab.datasets.settings import Settings
from rag_lab.datasets.standing import standing_of
from rag_lab.datasets.times import parse_instant

ID_KEYS = ("_id", "id")
RIGHTS_KEYS = frozenset({"tenant", "public", "groups", "policy", "sections"})
OPEN_TENANT = "default"
SECTION_KEYS = ("span", "heading", "public", "groups", "policy", "valid_from", "valid_until")

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(?P<title>\S.*?)[ \t]*#*[ \t]*\r?$", re.MULTILINE)
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass
class Repairs:
    """Characters that no store takes, and the ids of the records that held them."""

    nuls: int = 0
    surrogates: int = 0
    nul_ids: list[str] = field(default_factory=list)
    surrogate_ids: list[str] = field(default_factory=list)
    nul_positions: dict[str, list[int]] = field(default_factory=dict)

    def mend(self, text: str, record_id: str, is_text: bool = False) -> str:
        """`text` without NUL, and with U+FFFD for lone surrogates.

        Where NULs stood in a document's text is kept, so that offsets counted before can be moved.
        """
        if "\0" in text:
            if is_text:
                self.nul_positions[record_id] = [i for i, character in enumerate(text) if character == "\0"]
            self.nuls += text.count("\0")
            self.nul_ids.append(record_id)
            text = text.replace("\0", "")
        if not text.isascii() and (found := len(_SURROGATE.findall(text))):
            self.surrogates += found
            self.surrogate_ids.append(record_id)
            text = _SURROGATE.sub("\ufffd", text)
        return text


def identifier(value: Any, place: str) -> str:
    """An id as text; anything but non-empty text and whole numbers is refused."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and value.strip():
        return value
    raise RagLabError(f"{place}: the id is {value!r}; it must be non-empty text or a whole number")


def record_id(record: Record) -> str:
    """The record's id from `_id` or `id`."""
    for key in ID_KEYS:
        if key in record.fields:
            return identifier(record.fields[key], record.place)
    raise RagLabError(f"{record.place}: the record has no _id")


def metadata_of(record: Record, own: tuple[str, ...]) -> dict[str, Any]:
    """The record's `metadata`, and its further fields beside those in `own`."""
    nested = record.fields.get("metadata") or {}
    if not isinstance(nested, Mapping):
        raise RagLabError(f"{record.place}: metadata is {nested!r}; it must be an object")
    further = {
        key: value for key, value in record.fields.items() if key not in own and key not in (*ID_KEYS, "metadata")
    }
    return {**further, **nested}


def document_of(record: Record, declared: bool, settings: Settings, repairs: Repairs) -> Document:
    """A document from a corpus record.

    Where the collection has declared rights (`declared`), a document without a tenant or without readers admits
    nobody; the readers may be those of a `policy`, and `sections` may narrow them. An instant that cannot be read is
    an error, never an open interval, and so is a standing that is not known (see `standing_of`). Of the three dates
    `published`, `valid_from` to `valid_until`, and that of ingestion, only the first two are the author's to give: a
    record never says when it was ingested. Publication may lie after the start of validity.
    """
    document_id = record_id(record)
    metadata = metadata_of(record, ("title", "text"))
    title = repairs.mend(_text(record, "title"), document_id)
    text = repairs.mend(_text(record, "text"), document_id, is_text=True)
    tenant, acl = _rights(record, document_id, metadata) if declared else (OPEN_TENANT, Acl(public=True))
    place = f"{record.place}: document {document_id!r}"
    valid_from = parse_instant(metadata.get("valid_from"), settings.zone, f"{place}, field valid_from")
    valid_until = parse_instant(metadata.get("valid_until"), settings.zone, f"{place}, field valid_until", "until")
    if valid_from is not None and valid_until is not None and valid_from >= valid_until:
        raise RagLabError(f"{place}: valid_until is not after valid_from, so it is never valid")
    standing = standing_of(metadata, place, declared)
    sections = _sections(metadata.get("sections"), text, repairs.nul_positions.get(document_id, ()), settings, place)
    return Document(
        document_id=document_id,
        text=text,
        title=title,
        tenant=tenant,
        acl=acl,
        acl_version=_stated(metadata, "acl_version", "1"),
        language=_stated(metadata, "language", "") or language_of(text or title),
        source_uri=_stated(metadata, "source_uri", _stated(metadata, "url", "")),
        source_version=_stated(metadata, "version", "1"),
        source_trust=standing.source_trust,
        published_at=parse_instant(metadata.get("published"), settings.zone, f"{place}, field published"),
        valid_from=valid_from,
        valid_until=valid_until,
        status=standing.status,
        authority=standing.authority,
        sections=sections,
        metadata=metadata,
    )


def question_of(record: Record, declared: bool, settings: Settings, repairs: Repairs) -> Question:
    """A question from a queries record, without its answers."""
    query_id = record_id(record)
    metadata = metadata_of(record, ("text", "title"))
    text = repairs.mend(_text(record, "text"), query_id)
    if not text.strip():
        raise RagLabError(f"{record.place}: question {query_id!r} has no text")
    place = f"{record.place}: question {query_id!r}"
    return Question(
        query_id=query_id,
        text=text,
        group=str(metadata.get("group") or metadata.get("type") or "all"),
        language=_stated(metadata, "language", "") or language_of(text),
        principal=_principal(metadata.get("principal"), declared, place),
        time=parse_instant(metadata.get("time"), settings.zone, f"{place}, field time"),
        metadata=metadata,
        history=_history(metadata.get("history"), query_id, repairs, place),
    )


def _history(given: Any, query_id: str, repairs: Repairs, place: str) -> tuple[str, ...]:
    """The turns of the conversation before a question: texts, or objects that hold one as `content` or `text`."""
    turns: list[Any] = given if isinstance(given, list) else [] if given is None else [None]
    found = [turn.get("content", turn.get("text")) if isinstance(turn, Mapping) else turn for turn in turns]
    texts = [text for text in found if isinstance(text, str)]
    if len(texts) < len(found):
        raise RagLabError(f"{place}, field history: {given!r} is not a list of texts, the oldest first")
    return tuple(repairs.mend(text, query_id) for text in texts if text.strip())


def accepted_answers(record: Record) -> tuple[tuple[str, ...], int]:
    """The accepted wordings of an answers record, and how many were left out because nothing is left of them.

    A wording of only punctuation and articles would match every answer. A record whose wordings are all like that is
    an error: the question could not be scored.
    """
    given = record.fields.get("answers") or ()
    if isinstance(given, str) or not all(isinstance(answer, str | int | float) for answer in given):
        raise RagLabError(f"{record.place}: answers must be a list of texts")
    wordings = [str(answer) for answer in given]
    kept = tuple(dict.fromkeys(answer for answer in wordings if not is_empty_wording(answer)))
    if wordings and not kept:
        raise RagLabError(
            f"{record.place}: question {record_id(record)!r} has only empty answers ({wordings[0]!r}) once articles "
            "and punctuation are gone; give an answer with content"
        )
    return kept, len(wordings) - sum(not is_empty_wording(answer) for answer in wordings)


def is_empty_wording(answer: str) -> bool:
    """Whether nothing is left of an answer without punctuation and articles."""
    kept = "".join(" " if _is_mark(character) else character for character in answer.lower())
    return not _ARTICLES.sub(" ", kept).strip()


def _is_mark(character: str) -> bool:
    return character in string.punctuation or unicodedata.category(character)[0] in "PCZ"


def gold_of(record: Record, texts: Mapping[str, str], repairs: Repairs) -> tuple[tuple[GoldSpan, ...], list[str]]:
    """The evidence that an answers record names, and the gold documents among it that the corpus lacks.

    `gold_spans` (document, start, end) and `answer_spans` (pairs into the one gold document) give exact evidence; a
    document in `gold` without a span is evidence as a whole.
    """
    spans: list[GoldSpan] = []
    documents = [identifier(value, record.place) for value in record.fields.get("gold") or ()]
    for span in record.fields.get("gold_spans") or ():
        if not isinstance(span, Mapping) or not {"document", "start", "end"} <= span.keys():
            raise RagLabError(f"{record.place}: gold_spans needs document, start and end; it holds {span!r}")
        document_id = identifier(span["document"], record.place)
        spans.append(_gold_span(record, document_id, (span["start"], span["end"]), texts, repairs))
    if record.fields.get("answer_spans") and len(documents) == 1:
        pieces = [_gold_span(record, documents[0], span, texts, repairs) for span in record.fields["answer_spans"]]
        spans += [piece for piece in pieces if piece.span is None or not is_empty_wording(_quoted(piece, texts))]
    covered = {span.document_id for span in spans}
    whole = [GoldSpan(document_id) for document_id in documents if document_id not in covered]
    gold = tuple(dict.fromkeys([*spans, *whole]))
    return gold, sorted({piece.document_id for piece in gold} - texts.keys())


def _quoted(piece: GoldSpan, texts: Mapping[str, str]) -> str:
    return texts[piece.document_id][slice(*piece.span)] if piece.span else ""


def _gold_span(record: Record, document_id: str, span: Any, texts: Mapping[str, str], repairs: Repairs) -> GoldSpan:
    if document_id not in texts:
        return GoldSpan(document_id)
    try:
        start, end = (int(position) for position in span)
    except (TypeError, ValueError):
        raise RagLabError(f"{record.place}: the gold span {span!r} is not a pair of offsets") from None
    nuls = repairs.nul_positions.get(document_id, ())
    start, end = (position - sum(nul < position for nul in nuls) for position in (start, end))
    length = len(texts[document_id])
    if not 0 <= start < end <= length:
        raise RagLabError(
            f"{record.place}: question {record_id(record)!r}: the gold span {span!r} does not lie in document "
            f"{document_id!r} ({length} characters)"
        )
    return GoldSpan(document_id, (start, end))


def _text(record: Record, key: str) -> str:
    value = record.fields.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise RagLabError(f"{record.place}: {key} is {value!r}; it must be text")
    return value


def _stated(metadata: Mapping[str, Any], key: str, otherwise: str) -> str:
    value = metadata.get(key)
    return otherwise if value is None else str(value)


def _rights(record: Record, document_id: str, metadata: Mapping[str, Any]) -> tuple[str, Acl]:
    place = f"{record.place}: document {document_id!r}"
    tenant = metadata.get("tenant") or ""
    if not isinstance(tenant, str):
        raise RagLabError(f"{place}, field tenant: {tenant!r} is not a name")
    acl = _acl(metadata, place)
    return (tenant, acl) if tenant else ("", Acl())


def _acl(fields: Mapping[str, Any], place: str) -> Acl:
    """The readers: `public` or `groups`, or those of a `policy`."""
    public, policy = fields.get("public"), fields.get("policy")
    if public is not None and not isinstance(public, bool):
        raise RagLabError(f"{place}, field public: {public!r} is neither true nor false")
    if policy is not None and (not isinstance(policy, str) or not policy):
        raise RagLabError(f"{place}, field policy: {policy!r} is not the id of a policy")
    groups = _groups(fields.get("groups"), place)
    if policy and (public or groups):
        raise RagLabError(f"{place}, field policy: a policy names the readers by itself; leave out public and groups")
    return Acl(bool(public), groups, policy or "")


def _sections(given: Any, text: str, nuls: Sequence[int], settings: Settings, place: str) -> tuple[SectionRights, ...]:
    """Rights of sections, each named by a `span` of the text or by a `heading`, which stands for its whole section.

    A section without readers admits nobody.
    """
    if given is None:
        return ()
    if not isinstance(given, list) or not all(isinstance(entry, Mapping) for entry in given):
        raise RagLabError(f"{place}, field sections: {given!r} is not a list like [{{heading: Pay, groups: [hr]}}]")
    found = []
    for number, entry in enumerate(given, 1):
        where = f"{place}, field sections[{number}]"
        if unknown := [key for key in entry if key not in SECTION_KEYS]:
            raise RagLabError(f"{where}.{unknown[0]}: unknown; remove it (known are {', '.join(SECTION_KEYS)})")
        begin = parse_instant(entry.get("valid_from"), settings.zone, f"{where}.valid_from")
        end = parse_instant(entry.get("valid_until"), settings.zone, f"{where}.valid_until", "until")
        acl = _acl(entry, where)
        found += [SectionRights(span, acl, begin, end) for span in _section_spans(entry, text, nuls, where)]
    return tuple(found)


def _section_spans(entry: Mapping[str, Any], text: str, nuls: Sequence[int], place: str) -> list[Span]:
    """The span, or every heading line with that text: the right of a heading is that of its section."""
    span, heading = entry.get("span"), entry.get("heading")
    if isinstance(heading, str) and heading.strip() and span is None:
        title = " ".join(heading.split())
        lines = [line.span() for line in _HEADING.finditer(text) if " ".join(line["title"].split()) == title]
        if not lines:
            raise RagLabError(f"{place}.heading: the document has no line like '# {title}'; correct one of them")
        return lines
    if heading is not None or not isinstance(span, list) or [type(edge) for edge in span] != [int, int]:
        raise RagLabError(f"{place}: give either a heading, or a span of two offsets like [0, 120]")
    start, end = (edge - sum(nul < edge for nul in nuls) for edge in span)
    if not 0 <= start < end <= len(text):
        raise RagLabError(f"{place}.span: {span!r} does not lie in the text of {len(text)} characters")
    return [(start, end)]


def _groups(value: Any, place: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list | tuple) or not all(isinstance(group, str) and group for group in value):
        raise RagLabError(f"{place}, field groups: {value!r} is not a list of names")
    return tuple(sorted({unicodedata.normalize("NFC", group) for group in value}))


def _principal(value: Any, declared: bool, place: str) -> Principal | None:
    if value is None:
        return None if declared else Principal(OPEN_TENANT)
    if not isinstance(value, Mapping) or not isinstance(value.get("tenant"), str) or not value["tenant"]:
        raise RagLabError(f"{place}, field principal: {value!r} names no tenant")
    return Principal(value["tenant"], _groups(value.get("groups"), place), str(value.get("user") or ""))
