"""Pairs of batches that must not share a cached output, each differing in one thing that decides what is read."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import combinations

from rag_lab.budgets import Budget
from rag_lab.contracts import Acl, Principal, Request
from rag_lab.corpus.chunking import Whole
from rag_lab.corpus.deny import DenyList
from rag_lab.corpus.policies import Policy, PolicyBook
from rag_lab.corpus.publishing import publish
from rag_lab.generation.extractive import ExtractiveReader
from rag_lab.store import Store
from rag_lab.variants.execute import Memory, run_variant
from rag_lab.variants.variant import load_variant

NOW = datetime(2026, 6, 1, tzinfo=UTC)
BOOK = PolicyBook((Policy("p", "1", Acl(groups=("hr",))),))
OTHER_BOOK = PolicyBook((Policy("p", "1", Acl(groups=("hr",)), valid_until=NOW + timedelta(days=1)),))
REQUEST = Request("r", "pump valve", Principal("t", ("hr",), "ann"), "t", NOW)
OTHERS = {
    "query": {"query": "pump  valve"},
    "user": {"principal": Principal("t", ("hr",), "bob")},
    "groups": {"principal": Principal("t", ("hr", "ops"), "ann")},
    "one group of two names": {"principal": Principal("t", ("hr', 'ops",), "ann")},
    "nobody": {"principal": None},
    "tenant of the reader": {"principal": Principal("u", ("hr",), "ann")},
    "tenant": {"tenant": "u"},
    "time": {"time": NOW + timedelta(microseconds=1)},
    "horizon": {"horizon": NOW},
    "later horizon": {"horizon": NOW + timedelta(days=1)},
    "empty scope": {"scope": frozenset()},
    "scope": {"scope": frozenset({"d01"})},
    "other scope": {"scope": frozenset({"d01", "d02"})},
    "scope of one odd id": {"scope": frozenset({"d01', 'd02"})},
    "policy version": {"policy_version": "2"},
    "language": {"language": "en"},
    "freshness": {"freshness_bound": NOW - timedelta(days=900)},
    "budget": {"budget": {"candidates": 3.0}},
}


def test_every_field_of_a_request_decides(house, store: Store) -> None:
    keys = {"none": house.batch([REQUEST], store).key}
    keys |= {name: house.batch([replace(REQUEST, **fields)], store).key for name, fields in OTHERS.items()}
    assert [pair for pair in combinations(keys, 2) if keys[pair[0]] == keys[pair[1]]] == []
    assert house.batch([replace(REQUEST)], store).key == keys["none"]
    assert house.batch([replace(REQUEST, scope=frozenset({"d02", "d01"}))], store).key == keys["other scope"]


def test_order_and_company_of_requests_decide(house, store: Store) -> None:
    one, other = REQUEST, replace(REQUEST, request_id="s", tenant="u")
    keys = {house.batch(list(requests), store).key for requests in ([one], [other], [one, other], [other, one], [])}
    assert len(keys) == 5


def test_policies_denials_and_snapshot_decide(house, store: Store, hash_encoder) -> None:
    names = [document.document_id for document in house.documents]
    snapshots = [
        publish(store, documents, Whole(), encoder=hash_encoder, factories=["Flat"], corpus=corpus)
        for documents, corpus in ((house.documents, "a"), (house.documents, "b"), (house.documents[1:], "a"))
    ]
    batches = [replace(house, snapshot=snapshot).batch([REQUEST], store) for snapshot in snapshots]
    first = batches[0]
    keys = [batch.key for batch in batches]
    keys += [
        replace(first, book=book, scopes=first.snapshot.scopes([REQUEST], book)).key for book in (BOOK, OTHER_BOOK)
    ]
    deny = DenyList(store)
    for name in names[:2]:
        deny.deny("a", [name], "a test", by="test")
        keys.append(first.current().key)
    deny.deny("a", ["of another corpus"], "a test", by="test")
    assert first.current().key == keys[-1]  # what the snapshot does not hold decides nothing
    deny.lift("a", names[:2], by="test")
    assert first.current().key == keys[0]
    assert len(set(keys)) == len(keys) == 7


def test_settings_models_and_plans_decide_each_stage(house, store: Store) -> None:
    def keys(budget: Budget = Budget(), threshold: float = 0.0, depth: int = 9, passages: int = 2) -> list[str]:  # noqa: B008
        stages = [{"dense": {"depth": depth}}, {"assemble": {"passages": passages}}, {"generate": {}}]
        batch = replace(house.batch([REQUEST], store), generator=ExtractiveReader(threshold=threshold))
        return [ran.key for ran in run_variant(load_variant("mine", stages), batch, budget, Memory()).ran]

    base = keys()
    assert keys() == base
    shared = {
        "deep": keys(depth=10),
        "long": keys(passages=3),
        "capped": keys(Budget(candidates=5)),
        "short": keys(Budget(context_tokens=50)),
        "careful": keys(threshold=0.5),
    }
    same = {name: [key == other for key, other in zip(found, base, strict=True)] for name, found in shared.items()}
    assert same == {
        "deep": [False, False, False],
        "long": [True, False, False],
        "capped": [False, False, False],
        "short": [True, False, False],
        "careful": [True, False, False],
    }
