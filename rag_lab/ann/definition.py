"""The definition of a study of indexes: what its file says, checked field by field before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, field_validator

from rag_lab.contracts import RagLabError
from rag_lab.definition import DatasetSettings, Experiment, Settings, SnapshotSettings
from rag_lab.validation import explain, read_yaml

LARGEST = 100_000_000
MAKES_VECTORS = ("chunker", "encoder", "context_prefix")
Positive = Annotated[int, Field(ge=1)]
Size = Annotated[int, Field(ge=2, le=LARGEST)]


class AnnStudy(Settings):
    """Indexes by their FAISS factory strings, searched with one set of questions at several sizes of one collection.

    The vectors are those of the dataset's passages, cut and encoded as `snapshot` says; for a size above their number
    more are made from them (`rag_lab.ann.enlarging`). An entry of `indexes` is a factory string, or a mapping of one to
    the breadths at which it is searched: efSearch of HNSW, nprobe of IVF. Without any it is searched as rag_lab does by
    itself. `queries` questions are drawn by `seed`. The largest of `k` is how many rows a search returns.
    """

    name: str = Field(pattern=r"^\w[\w .@-]{0,99}$")
    question: str = ""
    dataset: str
    dataset_options: DatasetSettings = DatasetSettings()
    split: str = "test"
    queries: Positive = 300
    seed: int = Field(0, ge=0, lt=2**32)
    snapshot: SnapshotSettings = SnapshotSettings()
    sizes: list[Size] = Field(min_length=1)
    indexes: dict[str, list[Positive]] = Field(min_length=1)
    k: list[Positive] = Field([10, 100], min_length=1)
    threads: int = Field(1, ge=1, le=1024)

    @field_validator("dataset", mode="before")
    @classmethod
    def _as_text(cls, given: Any) -> Any:
        """A folder may be a path."""
        return str(given) if isinstance(given, Path) else given

    @field_validator("sizes", "k")
    @classmethod
    def _ascending(cls, given: list[int]) -> list[int]:
        """Each once, from small to large."""
        return sorted(set(given))

    @field_validator("indexes", mode="before")
    @classmethod
    def _by_factory(cls, given: Any) -> Any:
        """A list of factory strings, and of mappings of one to its breadths, as one mapping."""
        if not isinstance(given, list):
            return given
        found: dict[Any, Any] = {}
        for entry in given:
            named = entry if isinstance(entry, Mapping) else {entry: []} if isinstance(entry, str) else {}
            if not named or not all(str(name).strip() for name in named):
                raise ValueError("an entry is no FAISS factory string such as HNSW32, nor a mapping of one to breadths")
            if repeated := found.keys() & named.keys():
                raise ValueError(f"'{min(repeated)}' is listed twice; give its breadths as one list")
            found |= named
        return found

    @field_validator("snapshot")
    @classmethod
    def _vectors_alone(cls, given: SnapshotSettings) -> SnapshotSettings:
        for name, field in SnapshotSettings.model_fields.items():
            if name not in MAKES_VECTORS and getattr(given, name) != field.default:
                raise ValueError(f"the study searches vectors of passages alone; remove {name}")
        return given

    @classmethod
    def load(cls, path: Path | str) -> AnnStudy:
        """Read a file (YAML). Errors name file, field and fix."""
        path = Path(path)
        return cls.read({"name": path.stem, **read_yaml(path, "experiments/ann.yaml")}, str(path))

    @classmethod
    def read(cls, data: Mapping[str, Any], place: str = "study") -> AnnStudy:
        """Check a mapping; `place` names it in errors."""
        try:
            study = cls.model_validate({"name": "ann", **data})
        except ValidationError as error:
            raise RagLabError(f"{place}: {explain(error)}") from error
        except RagLabError as error:
            raise RagLabError(f"{place}: {error}") from error
        return study

    def experiment(self) -> Experiment:
        """The experiment that has the study's passages and questions: exact dense retrieval."""
        return Experiment(
            name=self.name,
            dataset=self.dataset,
            dataset_options=self.dataset_options,
            split=self.split,
            limit=self.queries,
            seed=self.seed,
            snapshot=self.snapshot,
            generator={"name": "none"},
            variants=[{"dense": [{"dense": {"index": "Flat"}}]}],
        )
