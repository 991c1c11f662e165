"""What a caller may not read leaves no trace in anything that the caller, or the disk, gets to see.

Corpora, readers and questions are drawn at random, and which chunk is permitted to whom is decided a second time, by
plain loops over the structure from which the documents were written. Every document, heading and paragraph holds a
word of its own, a canary. BM25 is the one place where what is forbidden may be felt: its scores rest on the statistics
of the whole collection, so a permitted chunk's score is compared with the one that it has in an unfiltered search.

Each of 12,800 questions with a caller, time and filter of its own is put to all variants of the catalogue and some
more, and 88,000 others to the searches alone: 100,800 different requests.
"""

from __future__ import annotations

import random
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag_lab.budgets import Budget, Prices
from rag_lab.contracts import (
    GLOBAL_TENANT,
    Acl,
    Answer,
    Claim,
    Completion,
    Document,
    Principal,
    Request,
    SectionRights,
    Source,
)
from rag_lab.corpus.chunking import Blocks, ParentChild, Recursive, Whole, Window
from rag_lab.corpus.deny import DenyList
from rag_lab.corpus.policies import Policy, PolicyBook
from rag_lab.corpus.publishing import publish
from rag_lab.corpus.segment import document_digest
from rag_lab.corpus.snapshot import Snapshot
from rag_lab.generation.extractive import ExtractiveReader
from rag_lab.retrieval.encoders import embed_queries
from rag_lab.store import Store
from rag_lab.variants import Variant, catalogue, load_variant
from rag_lab.variants.execute import Memory, run_variant
from rag_lab.variants.handing_out import candidates
from rag_lab.variants.query_vectors import QuerySparseVectors, QueryTokenVectors, QueryVectors
from rag_lab.variants.stage import Batch, State, trace

CORPORA, REQUESTS = 32, 400
SEARCHED_CORPORA, SEARCHES = 16, 5500
WORDS = ["pump", "valve", "sensor", "lamp", "wheel", "axle", "brake", "cable", "gear", "belt"]
CANARY = re.compile(r"[dhbto]\d+x\d+q")
ALWAYS = [9, 0, 0, 0, 0, 0, 0]  # a classifier that lets every question take several rounds
VARIANTS = {name: load_variant(name) for name in catalogue()} | {
    "hnsw": load_variant("hnsw", [{"dense": {"index": "HNSW8"}}, "assemble", "generate"]),
    "ivf": load_variant("ivf", [{"dense": {"index": "IVF4,Flat"}}, "assemble", "generate"]),
    "near": load_variant("near", ["bm25", {"dense": {"index": "HNSW8"}}, "rrf", {"assemble": {"order": "source"}}]),
    "plaid": load_variant(
        "plaid", [{"colbert": {"index": "plaid", "cells": 2, "compared": 3}}, "assemble", "generate"]
    ),
    "splade": load_variant("splade", [{"splade": {"model": "hash-sparse"}}, "assemble", "generate"]),
    "sections": load_variant(
        "sections",
        ["bm25", "dense", "weighted_sum", {"mmr": {"depth": 5}}, "expand", "assemble", "compress", "generate"],
    ),
    "several": load_variant("several", [{"adaptive": {"classifier": ALWAYS, "look_at": 5}}, "assemble", "generate"]),
    "corrective": load_variant("corrective", [{"adaptive": {"mode": "corrective"}}, "assemble"]),
    "interleaved": load_variant(
        "interleaved", [{"adaptive": {"classifier": ALWAYS, "mode": "interleaved"}}, "assemble"]
    ),
}

SEARCHING = {name: load_variant(name, [name]) for name in ("bm25", "dense", "colbert")} | {
    "plaid": load_variant("plaid", [{"colbert": {"index": "plaid", "cells": 2, "compared": 3}}]),
    "splade": load_variant("splade", [{"splade": {"model": "hash-sparse"}}]),
}


def day(number: int) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC).replace(month=1 + number // 28 % 12, day=1 + number % 28)


@dataclass
class Node:
    """A section as it was written: where its heading and its paragraph lie, and the rights that were stated for it."""

    number: int
    parent: Node | None
    heading: tuple[int, int] = (0, 0)
    body: tuple[int, int] = (0, 0)
    rights: list[SectionRights] = field(default_factory=list)


@dataclass
class Written:
    """A document and the structure that it was written from."""

    number: int
    document: Document
    nodes: list[Node]


def an_acl(draw: random.Random) -> Acl:
    kind = draw.randrange(10)
    if kind < 4:
        return Acl(public=True)
    if kind < 7:
        return Acl(groups=tuple(draw.sample(["hr", "ops", "HR", "*", "", "E\u0301quipe"], draw.randint(1, 2))))
    if kind < 9:
        return Acl(public=draw.random() < 0.5, policy=draw.choice(["p1", "p2", "p3", "missing"]))
    return Acl()


def an_interval(draw: random.Random) -> tuple[datetime | None, datetime | None]:
    begin, end = sorted(draw.sample(range(300), 2))
    return draw.choice(
        [(None, None), (None, None), (None, None), (day(begin), None), (None, day(end)), (day(begin), day(end))]
    )


def write(draw: random.Random, number: int) -> Written:
    """A Markdown document of one to five sections, some of them nested and some of them restricted."""
    text, nodes, open_nodes = "", [], []
    for position in range(draw.randint(1, 5)):
        level = draw.randint(1, min(3, len(open_nodes) + 1))
        del open_nodes[level - 1 :]
        node = Node(position, open_nodes[-1] if open_nodes else None)
        start = len(text)
        text += f"{'#' * level} h{number}x{position}q\n\n"
        node.heading = (start, len(text) - 2)
        start = len(text)
        text += " ".join([*draw.choices(WORDS, k=draw.randint(3, 9)), f"b{number}x{position}q"]) + ".\n\n"
        node.body = (start, len(text) - 2)
        open_nodes.append(node)
        nodes.append(node)
        if draw.random() < 0.35:
            span = draw.choice([node.heading, node.body, (node.heading[0], node.body[1])])
            node.rights.append(SectionRights(span, an_acl(draw), *an_interval(draw)))
    title = draw.choice(["", f"t{number}x0q", f"t{number}x0q", f"h{number}x{draw.choice(nodes).number}q"])
    document = Document(
        f"d{number}x0q",
        text,
        title=title,
        tenant=draw.choice(["t", "t", "u", GLOBAL_TENANT, ""]),
        acl=an_acl(draw),
        language="en",
        sections=tuple(rights for node in nodes for rights in node.rights),
        valid_from=(interval := an_interval(draw))[0],
        valid_until=interval[1],
    )
    return Written(number, document, nodes)


def a_book(draw: random.Random) -> PolicyBook:
    found = []
    for name in ("p1", "p2", "p3"):
        edges: list[Any] = [None, *map(day, sorted(draw.sample(range(300), draw.randint(0, 2)))), None]
        for version, (begin, end) in enumerate(pairwise(edges)):
            if draw.random() < 0.8:
                acl = Acl(draw.random() < 0.2, tuple(draw.sample(["hr", "ops", "*"], draw.randint(0, 2))))
                found.append(Policy(name, str(version), acl, begin, end))
    return PolicyBook(tuple(found), fault="broken" if draw.random() < 0.1 else "")


def a_request(draw: random.Random, number: int, book: PolicyBook, ids: Sequence[str]) -> Request:
    tenant = draw.choice(["t", "t", "t", "u", "v", GLOBAL_TENANT, ""])
    groups = draw.choice([(), (), ("hr",), ("ops",), ("hr", "ops"), ("*",), ("",), ("HR", "\u00c9quipe")])
    principal = None if draw.random() < 0.05 else Principal(tenant, groups)
    time = day(draw.randrange(0, 300, 15))
    return Request(
        f"r{number}",
        " ".join(draw.choices([*WORDS, "unknown", *ids[:3], "h1x0q", "b2x1q"], k=draw.randint(1, 4))),
        principal=principal,
        tenant=draw.choice(["t", "u"]) if draw.random() < 0.05 else tenant,
        time=time,
        scope=frozenset(draw.sample([*ids, "elsewhere"], draw.randint(0, min(6, len(ids)))))
        if draw.random() < 0.1
        else None,
        policy_version="stale" if draw.random() < 0.03 else book.version,
        horizon=day(draw.randrange(0, 300, 30)) if draw.random() < 0.15 else None,
        language="en",
    )


# --- the second opinion ----------------------------------------------------------------------------------------------


def may_read(acl: Acl, groups: Sequence[str], book: PolicyBook, time: datetime) -> bool:
    if acl.policy:
        if book.fault:
            return False
        for policy in book.policies:
            begun = policy.valid_from is None or policy.valid_from <= time
            if policy.policy_id == acl.policy and begun and (policy.valid_until is None or time < policy.valid_until):
                return may_read(policy.acl, groups, book, time)
        return False
    if acl.public:
        return True
    for group in acl.groups:
        for own in groups:
            same = group == own or {group, own} == {"E\u0301quipe", "\u00c9quipe"}
            if same and own not in ("", "*"):
                return True
    return False


def in_time(begin: datetime | None, end: datetime | None, request: Request) -> bool:
    latest = request.time if request.horizon is None or request.horizon < request.time else request.horizon
    return (begin is None or begin <= latest) and (end is None or request.time < end)


def conditions(written: Written, spans: Sequence[tuple[int, int]]) -> list[SectionRights]:
    """The section rights that a chunk of these spans is under."""

    def touches(span: tuple[int, int], other: tuple[int, int]) -> bool:
        return any(position in range(*other) for position in range(*span))

    sources: list[tuple[int, int]] = []
    for node in written.nodes:
        if any(touches(node.heading, span) or touches(node.body, span) for span in spans):
            sources += [part for part in (node.heading, node.body) if any(touches(part, span) for span in spans)]
            above = node.parent
            while above is not None:
                sources.append(above.heading)
                above = above.parent
            if any(touches(node.body, span) for span in spans):
                sources.append(node.heading)
        if written.document.title == f"h{written.number}x{node.number}q":
            sources.append(node.heading)
    return [r for node in written.nodes for r in node.rights if any(touches(r.span, source) for source in sources)]


def permitted(written: Written, sections: Sequence[SectionRights], request: Request, book: PolicyBook) -> bool:
    document, caller = written.document, request.principal
    if caller is None or caller.tenant == "" or caller.tenant != request.tenant:
        return False
    if document.tenant != caller.tenant and document.tenant != GLOBAL_TENANT:
        return False
    if request.policy_version != book.version:
        return False
    if request.scope is not None and document.document_id not in request.scope:
        return False
    parts = (document, *sections)
    if any(a.valid_from and b.valid_until and a.valid_from >= b.valid_until for a in parts for b in parts):
        return False
    for part in parts:
        if not may_read(part.acl, caller.groups, book, request.time):
            return False
        if not in_time(part.valid_from, part.valid_until, request):
            return False
    return True


class Quoting:
    """A generator that says all it was shown, so that nothing shown goes unseen."""

    name, version, window, calls = "quoting", "1", None, 0

    def count_tokens(self, texts: Sequence[str]) -> Any:
        return np.array([len(text.split()) for text in texts], dtype=np.int32)

    def prompt_tokens(self, requests: Sequence[Request], contexts: Sequence[Any]) -> Any:
        return np.array([5 + sum(len(p.text.split()) for p in passages) for passages in contexts], dtype=np.int32)

    def generate(self, requests: Sequence[Request], contexts: Sequence[Any], output_tokens: Any) -> list[Completion]:
        made = []
        for request, context in zip(requests, contexts, strict=True):
            claims = tuple(
                Claim(
                    f"{p.title} {p.lead} {p.text}",
                    (Source(p.document_id, p.source_version, p.chunk_id, p.span, p.text, p.source_uri),),
                )
                for p in context.passages
            )
            text = f"{len(context.dropped)} left out; " + " ".join(claim.text for claim in claims)
            made.append(Completion(Answer(request.request_id, text, claims), len(text), 1, 0, 0.1))
        return made


# --- one corpus ------------------------------------------------------------------------------------------------------


@dataclass
class Trial:
    """A corpus, a batch of requests on it, what each may read, and what came of it."""

    batch: Batch
    allowed: Any  # [requests, rows]
    visible: list[frozenset[str]]  # canaries by request
    states: dict[str, State]
    depth: int


def run_trial(
    seed: int, folder: Path, encoders: Sequence[Any], count: int, variants: Mapping[str, Variant] = VARIANTS
) -> Trial:
    draw = random.Random(seed)
    store = Store(folder)
    encoder, late, sparse = encoders
    corpus = {w.document.document_id: w for w in (write(draw, number) for number in range(draw.randint(1, 16)))}
    documents = [written.document for written in corpus.values()]
    chunker = draw.choice([Blocks(size=8), Blocks(size=30), Window(size=7), ParentChild(), Recursive(size=12), Whole()])
    settings: dict[str, Any] = {
        "token_encoder": encoder,
        "analyzer": "en",
        "encoder": encoder,
        "factories": ["Flat", "HNSW8", "IVF4,Flat"],
        "late": late,
        "late_indexes": ["auto", "exact", "plaid"],
        "sparse": [sparse],
        "corpus": "trial",
    }
    base = None
    if seed % 2:  # an index with a past, of which nothing may be left
        older = [replace(d, text=f"{d.text} o{n}x0q", sections=()) for n, d in enumerate(documents[::2])]
        gone = Document("gone", f"pump valve o{len(older)}x0q", acl=Acl(public=True), tenant="t")
        base = publish(store, [*older, *documents[1::2], gone], chunker, **settings)
    snapshot = publish(store, documents, chunker, **settings, base=base, removed=["gone"] if base else [])
    deny, book = DenyList(store), a_book(draw)
    unread = set(draw.sample(sorted(corpus), draw.randint(0, len(corpus) // 3)))
    if unread:
        deny.deny("trial", [*sorted(unread)[::2], "elsewhere"], "test", by="test")
        deny.delete("trial", {d: document_digest(corpus[d].document) for d in sorted(unread)[1::2]}, "test", by="test")
        unread &= deny.denied("trial")
    spared = sorted(set(corpus) - unread)[:2]
    deny.delete("trial", dict.fromkeys(spared, "of other content"), "test", by="test")
    requests = [a_request(draw, number, book, sorted(corpus)) for number in range(count)]
    table = snapshot.chunks
    allowed = np.zeros((count, len(table)), dtype=bool)
    visible: list[set[str]] = [set() for _ in requests]
    for row in range(len(table)):
        written = corpus[table.document_id[row]]
        spans = [(int(table.start[row]), int(table.end[row])), (int(table.shown_start[row]), int(table.shown_end[row]))]
        assert written.document.text[slice(*spans[0])] == table.text[row]
        assert written.document.text[slice(*spans[1])] == table.shown[row]
        sections = conditions(written, spans)
        shown = {table.document_id[row], table.title[row], *table.section_path[row]}
        shown |= set(CANARY.findall(table.shown[row]))
        if table.document_id[row] in unread:
            continue
        for number, request in enumerate(requests):
            if permitted(written, sections, request, book):
                allowed[number, row] = True
                visible[number] |= shown
    batch = Batch(
        requests=requests,
        gold=[np.arange(len(table), dtype=np.int32)] * count,
        snapshot=snapshot,
        book=book,
        scopes=snapshot.scopes(requests, book),
        generator=ExtractiveReader() if seed % 12 == 0 else Quoting(),
        generates=True,
        prices=Prices.load(),
        store=store,
        encoder=lambda: encoder,
        query_vectors=lambda texts: QueryVectors(embed_queries(encoder, texts), np.zeros(len(texts))),
        progress=lambda stage, done, total: None,
        late_encoder=lambda: late,
        token_vectors=lambda texts: QueryTokenVectors(late.encode_queries(texts), np.zeros(len(texts))),
        sparse_encoder=lambda model: sparse,
        sparse_vectors=lambda model, texts: QuerySparseVectors(sparse.encode_queries(texts), np.zeros(len(texts))),
        texts=lambda: {document.document_id: document.text for document in documents},
    )
    depth, memory = draw.choice([3, 10, 1000]), Memory()
    states = {name: run_variant(variant, batch, Budget(candidates=depth), memory) for name, variant in variants.items()}
    for state in states.values():
        assert not state.failures, state.failures[0]
    return Trial(batch, allowed, [frozenset(canaries) for canaries in visible], states, depth)


def check_nothing_forbidden_leaves(trial: Trial) -> None:
    for state in trial.states.values():
        rankings = [*state.channels.values(), state.fused, state.exact_neighbours]
        for ranking in rankings:
            assert ranking is None or trial.allowed[ranking.query, ranking.chunk].all()
        for number, visible in enumerate(trial.visible):
            context = state.contexts[number] if state.contexts is not None else None
            told = trace(state, number)
            asked = set(CANARY.findall(trial.batch.requests[number].query))  # an event may name what the caller asked
            assert set(CANARY.findall(repr(told.events))) <= visible | asked
            claims = state.sub_answers.get(number, ())
            completion = state.completions[number] if state.completions is not None else None
            said = [replace(told, events=()), completion, state.decided.get(number), claims]
            if context is not None:
                assert all(row < 0 or trial.allowed[number, row] for row, _ in context.dropped)
                said.append(context)
            assert set(CANARY.findall(repr(said))) <= visible
    for number in range(0, len(trial.visible), 97):
        for state in trial.states.values():
            asked = set(CANARY.findall(trial.batch.requests[number].query))  # a candidate names the query that found it
            assert set(CANARY.findall(repr(candidates(state, number)))) <= trial.visible[number] | asked


def check_the_disk(trial: Trial) -> None:
    """Whatever the stages left in the store holds no canary that no request of the batch may see, or asked with."""
    seen = frozenset().union(*trial.visible, *(CANARY.findall(request.query) for request in trial.batch.requests))
    files = [path for path in trial.batch.store.path("stages", trial.batch.snapshot.id).rglob("*") if path.is_file()]
    assert len(files) > len(VARIANTS)
    for path in files:
        for content in contents(path):
            assert {found.decode() for found in re.findall(CANARY.pattern.encode(), content)} <= seen


def contents(path: Path) -> Iterator[bytes]:
    data = path.read_bytes()
    yield data
    if path.suffix == ".bin":
        with zipfile.ZipFile(BytesIO(data[:-64])) as parts:
            yield from (parts.read(name) for name in parts.namelist())


def ranked(scores: Any, found: Any, depth: int) -> list[tuple[int, float]]:
    """Rows that were found with their scores, best first, equal ones by row."""
    rows = sorted(np.flatnonzero(found).tolist(), key=lambda row: (-scores[row], row))
    return [(row, float(scores[row])) for row in rows[:depth]]


def of(state: State, channel: str, number: int) -> list[tuple[int, float]]:
    ranking = state.channels[channel]
    mine = slice(*ranking.offsets[[number, number + 1]])
    return list(zip(ranking.chunk[mine].tolist(), ranking.score[mine].tolist(), strict=True))


def maxsim(late: Any, snapshot: Snapshot, queries: Sequence[str]) -> Any:
    """The score of every row for every query, ``[queries, rows]``, by loops over both; NaN for a row without a word."""
    table = snapshot.chunks
    texts = [late.encode_passages([table.indexed_text(row)]) for row in range(len(table))]
    scores = np.full((len(queries), len(texts)), np.nan)
    for number, query in enumerate(queries):
        asked = late.encode_queries([query])
        for row, text in enumerate(texts):
            if len(text.tokens):
                scores[number, row] = (asked.vectors @ text.vectors.T.astype(float)).max(axis=1).sum()
    return scores.round(6)


def products_of_terms(sparse: Any, snapshot: Snapshot, queries: Sequence[str]) -> Any:
    """The sum of products of impacts of every row for every query, ``[queries, rows]``; NaN without a common term."""
    table = snapshot.chunks

    def spread(texts: Sequence[str]) -> Any:
        made, whole = sparse.encode_passages(texts), np.zeros((len(texts), sparse.vocabulary))
        whole[np.repeat(np.arange(len(texts)), made.lengths), made.terms] = made.impacts
        return whole

    scores = spread(queries) @ spread([table.indexed_text(row) for row in range(len(table))]).T
    return np.where(scores > 0, scores, np.nan)


def check_the_permitted_rank_as_if_alone(trial: Trial) -> None:
    batch, depth = trial.batch, trial.depth
    snapshot, queries = batch.snapshot, [request.query for request in batch.requests]
    products = (
        batch.query_vectors([r.query for r in batch.requests]).vectors.vectors.astype(np.float64)
        @ snapshot.vectors.astype(np.float64).T
    )
    everything = snapshot.bm25.search(queries, len(snapshot.chunks), None)
    matches = np.full(trial.allowed.shape, np.nan)
    matches[everything.query, everything.row] = everything.score
    late = maxsim(batch.late_encoder(), snapshot, queries)
    sparse = products_of_terms(batch.sparse_encoder("hash-sparse"), snapshot, queries)
    for number, mine in enumerate(trial.allowed):
        dense = ranked(products[number].round(6), mine, depth)
        lexical = ranked(matches[number], mine & ~np.isnan(matches[number]), depth)
        assert of(trial.states["dense"], "dense", number) == dense
        assert of(trial.states["bm25"], "bm25", number) == lexical
        terms = ranked(sparse[number], mine & ~np.isnan(sparse[number]), depth)
        assert of(trial.states["splade"], "splade", number) == terms
        tokens = ranked(late[number], mine & ~np.isnan(late[number]), depth)
        assert of(trial.states["colbert"], "colbert", number) == tokens
        near = of(trial.states["plaid"], "colbert", number)
        assert len(near) == len(tokens)
        assert near == ranked(late[number], np.isin(np.arange(len(mine)), [row for row, _ in near]), depth)
        for name in ("hnsw", "ivf"):
            found = of(trial.states[name], "dense", number)
            assert len(found) == len(dense)
            if not mine.all():  # few rows are compared one by one
                assert found == dense
        spent = {name: state.ledger.spent["candidates"][number] for name, state in trial.states.items()}
        assert spent["dense"] == spent["hnsw"] == spent["ivf"] == min(depth, mine.sum())
        assert spent["splade"] == len(terms)
        assert spent["colbert"] == spent["plaid"] == len(tokens)
        assert spent["bm25"] == len(lexical)
        assert spent["gold_context"] == min(depth, mine.sum())
        assert spent["no_retrieval"] == 0
        half = depth // 2
        shares: dict[int, float] = {}
        for channel, rows in (("bm25", lexical[:half]), ("dense", dense[: depth - len(lexical[:half])])):
            assert of(trial.states["hybrid"], channel, number)[:half] == rows[:half]
            for rank, (row, _) in enumerate(of(trial.states["hybrid"], channel, number), 1):
                shares[row] = shares.get(row, 0) + 1 / (60 + rank)
        fused = trial.states["hybrid"].fused
        rows = fused.of(number).tolist()
        assert rows == sorted(shares, key=lambda row: (-round(shares[row], 12), row))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(CORPORA))
def test_no_stage_of_any_variant_lets_anything_forbidden_out(
    seed: int, tmp_path: Path, hash_encoder: Any, hash_late_encoder: Any, hash_sparse_encoder: Any
) -> None:
    trial = run_trial(seed, tmp_path, (hash_encoder, hash_late_encoder, hash_sparse_encoder), REQUESTS)
    check_nothing_forbidden_leaves(trial)
    check_the_disk(trial)
    check_the_permitted_rank_as_if_alone(trial)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(CORPORA, CORPORA + SEARCHED_CORPORA))
def test_no_search_finds_anything_forbidden_or_misses_what_is_permitted(
    seed: int, tmp_path: Path, hash_encoder: Any, hash_late_encoder: Any, hash_sparse_encoder: Any
) -> None:
    trial = run_trial(seed, tmp_path, (hash_encoder, hash_late_encoder, hash_sparse_encoder), SEARCHES, SEARCHING)
    for state in trial.states.values():
        assert trial.allowed[state.ranking.query, state.ranking.chunk].all()
    permitted_rows = trial.allowed.sum(axis=1)
    worded = np.isfinite(maxsim(trial.batch.late_encoder(), trial.batch.snapshot, ["pump"])[0])
    worded_rows = trial.allowed[:, worded].sum(axis=1)
    for name, rows in (("dense", permitted_rows), ("colbert", worded_rows), ("plaid", worded_rows)):
        spent = trial.states[name].ledger.spent["candidates"].tolist()
        assert spent == np.minimum(rows, trial.depth).tolist()
    queries = [request.query for request in trial.batch.requests]
    everything = trial.batch.snapshot.bm25.search(queries, trial.allowed.shape[1], None)
    matching = np.zeros(trial.allowed.shape, dtype=bool)
    matching[everything.query, everything.row] = True
    found = (matching & trial.allowed).sum(axis=1)
    assert trial.states["bm25"].ledger.spent["candidates"].tolist() == np.minimum(found, trial.depth).tolist()
    common = np.isfinite(products_of_terms(trial.batch.sparse_encoder("hash-sparse"), trial.batch.snapshot, queries))
    found = (common & trial.allowed).sum(axis=1)
    assert trial.states["splade"].ledger.spent["candidates"].tolist() == np.minimum(found, trial.depth).tolist()
