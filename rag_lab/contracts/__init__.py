"""The records that cross a boundary of rag_lab.

Everything here is immutable and imports nothing of ours. Single things are records (a `Chunk`, a `Question`, an
`Answer`); what a stage handles for all queries at once is held in arrays (a `Ranking`).

Conventions used everywhere:

* ids are strings;
* a span is a half-open interval ``(start, end)`` in code points of the document's text;
* instants are time-zone aware `datetime`s in UTC, ``None`` means open; `valid_until` is the first instant that is *not*
  valid;
* a *row* is the position of a chunk in its snapshot; rows are ordered by (document id, position in the document), so
  "ties by id" and "ties by row" are the same rule.
"""

from rag_lab.contracts.answers import (
    Abstention,
    Answer,
    Claim,
    Completion,
    Context,
    Failure,
    Outcome,
    Passage,
    Reason,
    Source,
)
from rag_lab.contracts.arrays import BoolArray, FloatArray, IntArray, Span, batches
from rag_lab.contracts.documents import GLOBAL_TENANT, Block, BlockKind, Chunk, Document, SectionRights
from rag_lab.contracts.errors import RagLabError, Unavailable
from rag_lab.contracts.models import Calibrated, Encoder, Generator, Writer, Written
from rag_lab.contracts.questions import GoldSpan, Question
from rag_lab.contracts.rankings import Candidate, Ranking
from rag_lab.contracts.requests import Queries, Request
from rag_lab.contracts.rights import Acl, Principal
from rag_lab.contracts.usage import MEANS, RESOURCES, CacheUse, Curtailment, Event, StageTiming, Trace, Usage

__all__ = [
    "GLOBAL_TENANT",
    "MEANS",
    "RESOURCES",
    "Abstention",
    "Acl",
    "Answer",
    "Block",
    "BlockKind",
    "BoolArray",
    "CacheUse",
    "Calibrated",
    "Candidate",
    "Chunk",
    "Claim",
    "Completion",
    "Context",
    "Curtailment",
    "Document",
    "Encoder",
    "Event",
    "Failure",
    "FloatArray",
    "Generator",
    "GoldSpan",
    "IntArray",
    "Outcome",
    "Passage",
    "Principal",
    "Queries",
    "Question",
    "RagLabError",
    "Ranking",
    "Reason",
    "Request",
    "SectionRights",
    "Source",
    "Span",
    "StageTiming",
    "Trace",
    "Unavailable",
    "Usage",
    "Writer",
    "Written",
    "batches",
]
