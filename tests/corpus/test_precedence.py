"""The rule of precedence between conflicting sources."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_lab.contracts import GLOBAL_TENANT, RagLabError
from rag_lab.corpus.precedence import explain, marks, precedence
from rag_lab.datasets.standing import AUTHORITIES, STATUSES, TRUSTS

TENANTS = ("meridian", GLOBAL_TENANT)
ALL = list(product(STATUSES, AUTHORITIES, TENANTS, TRUSTS))


def columns(rows):
    return [list(column) for column in zip(*rows, strict=True)]


def test_the_order_is_lexicographic():
    assert precedence(*columns(ALL)).tolist() == list(range(16))


@pytest.mark.parametrize(
    ("prevails", "yields"),
    [
        (("active", "article", GLOBAL_TENANT, "copy"), ("retired", "policy", "meridian", "primary")),
        (("active", "policy", GLOBAL_TENANT, "copy"), ("active", "article", "meridian", "primary")),
        (("active", "article", "meridian", "copy"), ("active", "article", GLOBAL_TENANT, "primary")),
        (("retired", "policy", "meridian", "primary"), ("retired", "policy", "meridian", "copy")),
    ],
)
def test_an_earlier_point_outweighs_all_later_ones(prevails, yields):
    stronger, weaker = precedence(*columns([prevails, yields]))
    assert stronger < weaker


@given(st.lists(st.sampled_from(ALL), max_size=60))
def test_columns_give_what_rows_give(rows):
    given_ = columns(rows) if rows else [[], [], [], []]
    found = precedence(*given_)
    assert found.dtype == np.int32
    assert found.tolist() == [ALL.index(row) for row in rows]


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (0, "draft", "row 1, field status: 'draft' is not known; give active or retired"),
        (1, "", "row 1, field authority: '' is not known; give policy or article"),
        (3, "Primary", "row 1, field source_trust: 'Primary' is not known; give primary or copy"),
    ],
)
def test_an_unknown_value_is_refused(column, value, message):
    row = list(ALL[0])
    row[column] = value
    with pytest.raises(RagLabError) as error:
        precedence(*columns([ALL[0], row]))
    assert str(error.value) == message


def test_marks_say_what_lowers_a_standing():
    assert [marks(n) for n in (0, 1, 2, 4, 8)] == [(), ("copy",), ("global",), ("article",), ("retired",)]
    assert marks(15) == ("retired", "article", "global", "copy")
    for outside in (-1, 16):
        with pytest.raises(RagLabError, match="it is a whole number from 0 to 15"):
            marks(outside)


def test_the_explanation_is_a_sentence():
    rule = "active over retired, then policy over article, then the tenant's own over global, then primary over copy"
    assert explain(0) == (
        f"An active policy of the tenant's own, from its primary source: precedence 0 ({rule}; the lower prevails)."
    )
    assert explain(15).startswith("A retired article for all tenants, from a copy: precedence 15 (")
    assert len({explain(n) for n in range(16)}) == 16
