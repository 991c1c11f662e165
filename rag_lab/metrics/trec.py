"""TREC run files that every evaluator reads in our order.

trec_eval keeps scores as 32-bit floats, ignores the rank column and breaks ties by document id, highest first. So a run
is written with scores that fall strictly even as 32-bit floats; a score that does so already is written as it is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import RagLabError

_NOT_IN_A_FIELD = re.compile(r"[\s%\x00-\x1f]")
_FIELDS = re.compile(r"[ \t]+")


def write_trec(path: Path, run_name: str, run: Mapping[str, Sequence[tuple[str, float]]]) -> None:
    """Write ranked ``{query id: [(document id, score)]}``, best first.

    White space and ``%`` in an id are percent-encoded, since white space separates the fields. Raises RagLabError for
    scores that are not finite as 32-bit floats or that rise down the ranking.
    """
    lines: list[str] = []
    encode, tag = lru_cache(maxsize=None)(_encode), _encode(run_name)
    for query_id, ranked in run.items():
        scores = np.array([score for _, score in ranked], dtype=np.float64)
        place = f"run {run_name!r}, query {query_id!r}"
        if (np.diff(scores) > 0).any():
            raise RagLabError(f"{place}: scores rise down the ranking; order entries by score, then id")
        falling = strictly_falling(scores, place)
        texts = list(map(repr, scores.tolist()))
        for moved in np.flatnonzero(scores.astype(np.float32) != falling).tolist():
            texts[moved] = str(falling[moved])
        name = encode(query_id)
        lines += [
            f"{name} Q0 {encode(document)} {rank} {text} {tag}\n"
            for rank, ((document, _), text) in enumerate(zip(ranked, texts, strict=True), start=1)
        ]
    Path(path).write_text("".join(lines), encoding="utf-8", newline="\n")


def read_trec(path: Path) -> dict[str, list[tuple[str, float]]]:
    """Read a run as ``{query id: [(document id, score)]}``, ordered by score, best first, then document id.

    The rank column is ignored, as trec_eval does. Raises RagLabError with the line number for a line of another form.
    """
    run: dict[str, list[tuple[str, float]]] = {}
    for number, line in enumerate(Path(path).read_text(encoding="utf-8-sig").split("\n"), start=1):
        if not line.strip():
            continue
        fields = _FIELDS.split(line.removesuffix("\r").strip(" \t"))
        if len(fields) != 6:
            raise RagLabError(f"{path}, line {number}: {len(fields)} fields, not 6: query Q0 document rank score name")
        try:
            score = float(fields[4])
        except ValueError:
            score = math.nan
        if not math.isfinite(score):
            raise RagLabError(f"{path}, line {number}: score {fields[4]!r} is not a finite number")
        run.setdefault(unquote(fields[0]), []).append((unquote(fields[2]), score))
    return {query_id: sorted(ranked, key=lambda entry: (-entry[1], entry[0])) for query_id, ranked in run.items()}


def strictly_falling(scores: npt.ArrayLike, place: str = "run") -> npt.NDArray[np.float32]:
    """The closest 32-bit floats, at most the scores given, that fall strictly; `scores` do not rise, ``[n]``.

    Floats are counted by integers, in which "the next float below" is minus one; a running minimum then spreads ties.
    """
    with np.errstate(over="ignore"):
        single = np.asarray(scores, dtype=np.float64).astype(np.float32)
    if not np.isfinite(single).all():
        bad = int(np.argmin(np.isfinite(single)))
        raise RagLabError(f"{place}: the score at rank {bad + 1} is not a finite 32-bit float")
    bits = single.view(np.int32).astype(np.int64)
    count = np.where(bits >= 0, bits, -(bits & 0x7FFFFFFF))
    steps = np.arange(len(count))
    count = np.minimum.accumulate(count + steps) - steps
    return np.where(count >= 0, count, -count | 0x80000000).astype(np.uint32).view(np.float32)


def _encode(name: str) -> str:
    return _NOT_IN_A_FIELD.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), name)
