"""How long a change takes until it has its effect, and whether that meets the targets.

A delay lasts from when a change began to when its effect was there:

* ``searchable``: a source was written (or the corpus was asked to add it) until its document is in the active
  generation. The first load of a corpus is no update and counts as ``loaded``;
* ``removed``: a deletion was noticed until the active generation lacks the document;
* ``deleted`` and ``revoked``: the call until the document is denied to every reader, checked on the deny list;
* ``purged``: the denial until nothing of the document is left on the disk.

The time at which a source was written is its file's, but not before the folder was last looked at. Percentiles are
delays that occurred: the smallest that at least so many do not exceed.

What has no effect yet counts as well: a source that failed or that nobody published, a denial that was not purged. Once
it has lasted longer than its target it is a miss; before, nobody can say, and it is left out of the count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rag_lab.contracts import RagLabError

if TYPE_CHECKING:
    import pandas as pd

MEASURED = ("searchable", "loaded", "removed", "deleted", "revoked", "purged")
AT_ONCE_S = 1.0
"""A denial is at once when it is in force within a second of the call, and before the call returns."""


class Timed(Protocol):
    """An event of a corpus; times are ISO 8601."""

    @property
    def kind(self) -> str:
        """One of `MEASURED`; others are left out."""
        ...

    @property
    def document_id(self) -> str:
        """What it happened to."""
        ...

    @property
    def started_at(self) -> str:
        """When the change began."""
        ...

    @property
    def ended_at(self) -> str | None:
        """When its effect was there, None until then."""
        ...


class Targets(BaseModel):
    """Freshness that is wanted; what is None is not checked. Times are in seconds.

    `share` of the updates must be searchable within `searchable_within_s`, all deletions denied and all purges done
    within theirs, the index not older than `index_age_s`; with `revoked_at_once` every revocation takes effect at once.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    searchable_within_s: float | None = Field(None, gt=0)
    share: float = Field(0.95, gt=0, le=1)
    revoked_at_once: bool = False
    deleted_within_s: float | None = Field(None, gt=0)
    purged_within_s: float | None = Field(None, gt=0)
    index_age_s: float | None = Field(None, gt=0)

    @classmethod
    def read(cls, given: Mapping[str, Any], place: str = "freshness") -> Targets:
        """Check a mapping. Raises RagLabError that names `place`, the field and the fix."""
        try:
            return cls.model_validate(dict(given))
        except ValidationError as error:
            fault = error.errors()[0]
            name = ".".join(str(part) for part in fault["loc"])
            if fault["type"] == "extra_forbidden":
                raise RagLabError(f"{place}.{name}: unknown; use {', '.join(cls.model_fields)}") from error
            message = fault["msg"][0].lower() + fault["msg"][1:]
            raise RagLabError(f"{place}.{name}: {message} (found {fault['input']!r})") from error

    def plain(self) -> dict[str, Any]:
        """Only what is stated, for JSON."""
        return self.model_dump(exclude_unset=True)


@dataclass(frozen=True, slots=True)
class Check:
    """One target: what was wanted and measured, in words, over how many events; `met` is None where there were none."""

    name: str
    wanted: str
    measured: str
    n: int
    met: bool | None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


def delays(events: Iterable[Timed], now: datetime) -> pd.DataFrame:
    """One row for each measured event: kind, document_id, started (UTC), seconds, and whether it lasts at `now`.

    `seconds` of what lasts are those until now.
    """
    import pandas as pd

    rows = [(e.kind, e.document_id, e.started_at, e.ended_at) for e in events if e.kind in MEASURED]
    frame = pd.DataFrame(rows, columns=["kind", "document_id", "started", "ended"])
    frame["started"] = pd.to_datetime(frame["started"], utc=True, format="ISO8601")
    ended = pd.to_datetime(frame.pop("ended"), utc=True, format="ISO8601")
    frame["lasts"] = ended.isna()
    frame["seconds"] = (ended.fillna(pd.Timestamp(now)) - frame["started"]).dt.total_seconds().clip(lower=0)
    return frame


def summary(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """For each kind of `delays`: n, how many still last, p50, p95 and max in seconds (None where none has ended)."""
    rows = []
    for kind in MEASURED:
        mine = frame[frame["kind"] == kind]
        if not len(mine):
            continue
        ended = mine.loc[~mine["lasts"], "seconds"].to_numpy(dtype=float)
        row: dict[str, Any] = {"kind": kind, "n": len(mine), "open": len(mine) - len(ended)}
        for name, share in (("p50", 50), ("p95", 95), ("max", 100)):
            row[name] = float(np.percentile(ended, share, method="inverted_cdf")) if len(ended) else None
        rows.append(row)
    return rows


def check(targets: Targets, frame: pd.DataFrame, index_age_s: float | None) -> list[Check]:
    """Each stated target against the delays, and against the age of the index (None: nothing is published)."""

    def within(name: str, kind: str, limit: float, share: float) -> Check:
        return _within(name, frame[frame["kind"] == kind], limit, share)

    found = []
    if targets.searchable_within_s is not None:
        name, limit = "updates searchable in time", targets.searchable_within_s
        found.append(within(name, "searchable", limit, targets.share))
    if targets.revoked_at_once:
        found.append(within("revocations at once", "revoked", AT_ONCE_S, 1.0))
    if targets.deleted_within_s is not None:
        found.append(within("deletions denied in time", "deleted", targets.deleted_within_s, 1.0))
    if targets.purged_within_s is not None:
        found.append(within("purges done in time", "purged", targets.purged_within_s, 1.0))
    if targets.index_age_s is not None:
        measured = "nothing is published" if index_age_s is None else f"{index_age_s:.0f} s"
        met = None if index_age_s is None else index_age_s <= targets.index_age_s
        found.append(
            Check("age of the index", f"at most {targets.index_age_s:g} s", measured, int(met is not None), met)
        )
    return found


def _within(name: str, frame: pd.DataFrame, limit: float, share: float) -> Check:
    """What has ended in time, of all that has ended or has lasted too long already."""
    late = frame["seconds"] > limit
    inside, n = int((~late & ~frame["lasts"]).sum()), int((late | ~frame["lasts"]).sum())
    wanted = f"{share:.0%} within {limit:g} s"
    if not n:
        return Check(name, wanted, "none happened", 0, None)
    return Check(name, wanted, f"{inside} of {n}", n, inside >= share * n)


def age_s(moment: str | None, now: datetime) -> float | None:
    """Seconds from an instant in ISO 8601 to `now`; None for none."""
    return None if moment is None else (now - datetime.fromisoformat(moment)).total_seconds()
