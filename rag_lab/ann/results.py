"""What a study of indexes found, as tidy frames, and the folder that keeps them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_lab.contracts import RagLabError
from rag_lab.store import write_atomically

if TYPE_CHECKING:
    import pandas as pd

FORMAT = "ann-1"
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "searches": (
        "size",
        "index",
        "breadth",
        "k",
        "recall",
        "ci_low",
        "ci_high",
        "n",
        "exact_queries",
        "latency_ms_p50",
        "latency_ms_p95",
        "queries_per_s",
        "build_s",
        "disk_bytes",
        "ram_bytes",
        "vector_bytes",
        "waiting",
        "built",
        "note",
    ),
    "likeness": ("vectors", "size", "measure", "value", "ci_low", "ci_high", "n"),
}
FACTS = ("study", "dataset", "collection", "warnings", "provenance")


@dataclass(eq=False)
class AnnResults:
    """Frames and the facts around them.

    searches: a row for each size, index, breadth and k. `breadth` is efSearch or nprobe, 0 where every row is visited;
    `exact_queries` were compared with every row because the index returned too little; times are processor time where
    one thread works, which is always so for `build_s`, else by the clock on the wall; `disk_bytes` and `ram_bytes` are
    the index without the vectors (`vector_bytes`), which rag_lab keeps beside every index; `waiting` is the share of
    the wall's time in which the process had no processor; `built` is the factory that was made, and `note` says why it
    is another one.

    likeness: measures of real vectors and of as many made ones (`rag_lab.ann.likeness`), empty when none were made.
    """

    searches: pd.DataFrame
    likeness: pd.DataFrame
    study: dict[str, Any]
    dataset: dict[str, Any]
    collection: dict[str, Any]
    warnings: list[str]
    provenance: dict[str, Any]

    def save(self, folder: Path | str) -> Path:
        """Write ``tables/*.parquet``, then ``results.json`` with everything: where it is, the folder is complete."""
        folder = Path(folder)
        (folder / "tables").mkdir(parents=True, exist_ok=True)
        (folder / "results.json").unlink(missing_ok=True)
        for name in COLUMNS:
            getattr(self, name).to_parquet(folder / "tables" / f"{name}.parquet", index=False)
        facts = {"format": FORMAT, **{name: getattr(self, name) for name in FACTS}}
        tables = {name: json.loads(getattr(self, name).to_json(orient="records")) for name in COLUMNS}
        write_atomically(
            folder / "results.json", json.dumps(facts | tables, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
        )
        return folder

    @classmethod
    def load(cls, folder: Path | str) -> AnnResults:
        """Read a folder that `save` wrote."""
        import pandas as pd

        path = Path(folder) / "results.json"
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            frames: dict[str, Any] = {
                name: pd.read_parquet(Path(folder) / "tables" / f"{name}.parquet") for name in COLUMNS
            }
        except (OSError, ValueError) as error:
            raise RagLabError(f"{path}: no complete results ({error}); run the study again") from error
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise RagLabError(f"{path}: not of a study of indexes, or of another version; run the study again")
        missing = [name for name in FACTS if name not in data]
        missing += [f"{name}.{column}" for name in COLUMNS for column in COLUMNS[name] if column not in frames[name]]
        if missing:
            raise RagLabError(f"{path}: lacks '{missing[0]}'; run the study again")
        return cls(**frames, **{name: data[name] for name in FACTS})

    @classmethod
    def is_in(cls, folder: Path | str) -> bool:
        """Whether the results in a folder are those of a study of indexes."""
        try:
            data = json.loads((Path(folder) / "results.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        return isinstance(data, dict) and str(data.get("format")).startswith("ann")


def frame(name: str, rows: list[dict[str, Any]]) -> pd.DataFrame:
    """A frame with the columns that `COLUMNS` lists, in that order."""
    import pandas as pd

    return pd.DataFrame(rows, columns=list(COLUMNS[name]))
