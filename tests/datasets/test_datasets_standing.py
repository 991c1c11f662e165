"""Status, authority and trust from a document's metadata, and the three dates."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime

import pytest

from rag_lab.contracts import RagLabError
from rag_lab.datasets import load
from rag_lab.datasets.embedded import PLACES
from rag_lab.datasets.standing import Standing, standing_of


@pytest.mark.parametrize(
    ("metadata", "standing"),
    [
        ({}, Standing("active", "policy", "primary")),
        ({"status": None, "authority": None, "trust": None, "kind": "minutes"}, Standing()),
        ({"trust": "primary"}, Standing()),
        ({"trust": "copy"}, Standing(source_trust="copy")),
        ({"trust": "article"}, Standing(authority="article")),
        ({"trust": "article", "authority": "article"}, Standing(authority="article")),
        ({"authority": "article", "trust": "copy"}, Standing("active", "article", "copy")),
        ({"status": "retired", "kind": "policy"}, Standing("retired")),
    ],
)
def test_standing_from_metadata(metadata, standing):
    assert standing_of(metadata, "x") == standing


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"status": "draft"}, "field status: 'draft' is not known; give active or retired"),
        ({"status": ["active"]}, "field status: ['active'] is not known; give active or retired"),
        ({"authority": "Policy"}, "field authority: 'Policy' is not known; give policy or article"),
        ({"trust": ""}, "field trust: '' is not known; give primary or copy or article"),
        (
            {"trust": "article", "authority": "policy"},
            "field trust: 'article' contradicts the authority 'policy'; give one of the two",
        ),
    ],
)
def test_an_unknown_standing_is_refused_by_document_and_field(written, metadata, message):
    rights = {"tenant": "t", "public": True}
    folder = written(documents=[{"_id": "d1", "text": "alpha", "metadata": metadata | rights}])
    with pytest.raises(RagLabError) as error:
        load(folder)
    assert str(error.value).endswith(f"corpus.jsonl:1: document 'd1', {message}")


def test_three_dates_are_three_things(written):
    metadata = {
        "published": "2026-09-20",
        "valid_from": "2026-09-15T00:00:00+08:00",
        "valid_until": "2026-12-31",
        "ingested_at": "2020-01-01",
    }
    (document,) = load(written(documents=[{"_id": "d1", "text": "alpha", "metadata": metadata}])).documents
    assert document.published_at == datetime(2026, 9, 20, tzinfo=UTC)
    assert document.valid_from == datetime(2026, 9, 14, 16, tzinfo=UTC)
    assert document.valid_until == datetime(2027, 1, 1, tzinfo=UTC)
    assert document.ingested_at is None


def test_the_handbook_has_a_standing_for_every_document():
    lines = (PLACES[0] / "corpus.jsonl").read_text(encoding="utf-8").split("\n")
    trusts = Counter(json.loads(line)["metadata"]["trust"] for line in lines if line)
    documents = load("handbook").documents
    assert Counter(d.authority for d in documents) == {"policy": trusts["primary"] + trusts["copy"], "article": 9}
    assert Counter(d.source_trust for d in documents) == {"primary": trusts["primary"] + 9, "copy": trusts["copy"]}
    assert {d.status for d in documents} == {"active"}
