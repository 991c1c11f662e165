"""Policies and section rights of documents."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from rag_lab import datasets
from rag_lab.contracts import Acl, RagLabError, SectionRights

TEXT = "# Pay\n\nBands.\n\n```\n# Pay\n```\n\n## Bonus #\n\nMay.\n"


def load(written: Callable[..., Path], **fields: Any) -> datasets.Dataset:
    folder = written(documents=[{"_id": "d1", "text": TEXT, "tenant": "t", **fields}])
    (folder / "policies.yaml").write_text("policies: []")
    return datasets.load(str(folder))


def test_a_document_names_a_policy_and_its_sections_others(written: Callable[..., Path]) -> None:
    sections = [
        {"heading": "Bonus", "groups": ["hr"], "valid_from": "2026-01-01"},
        {"span": [7, 13], "policy": "p2", "valid_until": "2026-01-01"},
        {"heading": "Pay", "public": True},
        {"span": [0, 2]},
    ]
    found = load(written, policy="p1", sections=sections)
    (document,) = found.documents
    assert document.acl == Acl(policy="p1")
    start = TEXT.index("## Bonus")
    assert document.sections == (
        SectionRights((start, start + 10), Acl(groups=("hr",)), datetime(2026, 1, 1, tzinfo=UTC)),
        SectionRights((7, 13), Acl(policy="p2"), None, datetime(2026, 1, 2, tzinfo=UTC)),
        SectionRights((0, 5), Acl(public=True)),
        SectionRights((19, 24), Acl(public=True)),
        SectionRights((0, 2), Acl()),
    )
    assert found.rights == "declared"
    assert found.policies is not None
    assert found.policies.name == "policies.yaml"


def test_offsets_counted_with_nuls_are_moved(written: Callable[..., Path]) -> None:
    folder = written(
        documents=[{"_id": "d1", "text": "a\0bc", "tenant": "t", "sections": [{"span": [2, 4], "groups": ["x"]}]}]
    )
    assert datasets.load(str(folder)).documents[0].sections[0].span == (1, 3)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"policy": 7}, "field policy: 7 is not the id of a policy"),
        ({"policy": "p", "public": True}, "field policy: a policy names the readers by itself"),
        ({"sections": {"heading": "Pay"}}, "field sections: .* is not a list"),
        (
            {"sections": [{"heading": "Bands"}]},
            r"sections\[1\]\.heading: the document has no line like '# Bands'",
        ),
        ({"sections": [{"groups": ["x"]}]}, r"sections\[1\]: give either a heading, or a span"),
        ({"sections": [{"heading": "Pay", "span": [0, 1]}]}, r"sections\[1\]: give either a heading, or a span"),
        ({"sections": [{"span": [0, True]}]}, r"sections\[1\]: give either a heading, or a span"),
        ({"sections": [{"span": [0, 900]}]}, r"sections\[1\]\.span: \[0, 900\] does not lie in the text"),
        ({"sections": [{"span": [5, 5]}]}, r"sections\[1\]\.span: \[5, 5\] does not lie in the text"),
        ({"sections": [{"heading": "Pay", "group": ["x"]}]}, r"sections\[1\]\.group: unknown"),
        ({"sections": [{"heading": "Pay", "groups": "x"}]}, r"sections\[1\], field groups: 'x' is not a list"),
        ({"sections": [{"heading": "Pay", "valid_from": "soon"}]}, r"sections\[1\]\.valid_from: 'soon' is not a date"),
    ],
)
def test_each_mistake_names_file_document_and_field(
    written: Callable[..., Path], fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(RagLabError, match=r"corpus\.jsonl:1: document 'd1', .*" + message):
        load(written, **fields)
