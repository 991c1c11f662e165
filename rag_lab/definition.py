"""The definition of an experiment: what an experiment file says, checked field by field before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    field_serializer,
    field_validator,
    model_validator,
)

from rag_lab.budgets import Budget
from rag_lab.contracts import RESOURCES, RagLabError
from rag_lab.corpus.chunking import Chunker, Whole, load_chunker, settings_of
from rag_lab.corpus.prefixing import ContextPrefix
from rag_lab.metrics.freshness import Targets
from rag_lab.validation import explain, read_yaml
from rag_lab.variants.switching import Switch, switches
from rag_lab.variants.variant import load_variant

MAIN = "main"
SnapshotName = Annotated[str, StringConstraints(pattern=r"^\w[\w .+-]{0,63}$")]


class Settings(BaseModel):
    """A part of the file; a key that it does not know is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class SnapshotSettings(Settings):
    """What is built from the documents. ``auto`` follows the languages of the corpus.

    `encoder` and `colbert` name models (minilm, multilingual-e5, or one by folder or hub name) for a vector of each
    chunk and for a vector of each of its tokens; they are loaded only when a variant searches by them.
    `chunker` is a mapping of its name and settings, ``{name: window, size: 200, overlap: 20}``, or the name alone.
    """

    chunker: Chunker = Whole()
    analyzer: Literal["auto", "en", "zh", "multilingual"] = "auto"
    encoder: str = "auto"
    colbert: str = "auto"
    context_prefix: ContextPrefix | None = None

    @field_validator("chunker", mode="plain")
    @classmethod
    def _by_name(cls, given: Any) -> Chunker:
        if isinstance(given, Chunker):
            return given
        if isinstance(given, str):
            return load_chunker(given)
        if not isinstance(given, Mapping):
            raise ValueError("must be the name of a chunker, or a mapping of its name and settings")
        if not all(isinstance(key, str) for key in given):
            raise ValueError("its settings must have names")
        return load_chunker(**{"name": Whole.name, **given})

    @field_serializer("chunker")
    def _settings(self, chunker: Chunker) -> dict[str, Any]:
        return settings_of(chunker)


class DatasetSettings(Settings):
    """How the dataset is read; see `rag_lab.datasets.load`."""

    zone: str | None = None
    remove_identical_ids: bool | None = None
    skip_broken: bool = False
    columns: dict[str, Any] | None = None
    mirror: str | None = None
    cache: str | None = None


class GeneratorSettings(Settings):
    """Who answers. ``none`` measures retrieval alone.

    `calibration`: how many questions set the abstention threshold of a generator that has one; they are never scored. A
    dataset with calibration questions of its own uses those.
    """

    name: str = "extractive"
    options: dict[str, Any] = Field(default_factory=dict)
    calibration: int = Field(50, ge=0)


class WriterSettings(Settings):
    """The language model that writes queries, grades and orders of passages for the stages that ask one to."""

    name: str
    options: dict[str, Any] = Field(default_factory=dict)


class AblationSettings(Settings):
    """Which variant is taken apart stage by stage; the whole of it also answers with each of the other `generators`."""

    variant: str
    generators: list[GeneratorSettings] = Field(default_factory=list)

    @field_validator("generators", mode="before")
    @classmethod
    def _by_name(cls, given: Any) -> Any:
        return [{"name": one} if isinstance(one, str) else one for one in given] if isinstance(given, list) else given


class StatisticsSettings(Settings):
    """Bootstrap resamples, random exchanges of the paired test, and the confidence of intervals."""

    resamples: int = Field(10_000, ge=100, le=1_000_000)
    permutations: int = Field(10_000, ge=100, le=1_000_000)
    confidence: float = Field(0.95, gt=0.5, lt=1)


class Experiment(Settings):
    """Variants, compared under one budget on one snapshot with the same rights and questions.

    `sweep` maps a resource to caps: the variants run once more for each, all else as in `budget`. `variants` lists
    names of the catalogue or mappings of a name to its stages. `snapshots` gives names to several snapshots, each with
    its own settings on top of those in `snapshot`: every variant that retrieves then runs on each of them, under the
    name ``variant@snapshot``. `time` is the instant of questions that have none; what comes into force within
    `coming_days` after a question's time is retrieved as well, and shown as coming.

    `ablation` adds the variants that have one stage less or more than the one it names (see `variants.switching`);
    those are compared with one another in the frame `ablation`.

    With `corpus` the variants search that corpus as it is, or its `generation`, and the dataset gives questions and
    judgments; `freshness` holds the corpus to targets (`rag_lab.metrics.freshness.Targets`) instead of its own.
    """

    name: str = Field(pattern=r"^[\w][\w .@-]{0,99}$")
    question: str = ""
    dataset: str
    dataset_options: DatasetSettings = DatasetSettings()
    split: str = "test"
    limit: int | None = Field(None, ge=1)
    seed: int = Field(0, ge=0, lt=2**32)
    time: str | None = None
    coming_days: float = Field(0, ge=0, le=36_500)
    corpus: str | None = None
    generation: int | None = Field(None, ge=1)
    freshness: Targets | None = None
    snapshot: SnapshotSettings = SnapshotSettings()
    snapshots: dict[SnapshotName, SnapshotSettings] = Field(default_factory=dict)
    generator: GeneratorSettings = GeneratorSettings()
    writer: WriterSettings | None = None
    budget: dict[str, float | int | None] = Field(default_factory=dict)
    sweep: dict[str, list[float | int]] = Field(default_factory=dict)
    variants: list[str | dict[str, list[Any]]] = Field(default=["bm25", "dense", "hybrid"], min_length=1)
    ablation: AblationSettings | None = None
    baseline: str | None = None
    metrics: list[str] | None = None
    statistics: StatisticsSettings = StatisticsSettings()
    prices: str | None = None

    @field_validator("dataset", "time", mode="before")
    @classmethod
    def _as_text(cls, given: Any) -> Any:
        """A folder may be a path; YAML reads an unquoted date as one."""
        if isinstance(given, date):
            return given.isoformat()
        return str(given) if isinstance(given, Path) else given

    @field_validator("variants", mode="after")
    @classmethod
    def _one_name_each(cls, given: list[Any]) -> list[Any]:
        if not all(given):
            raise ValueError("an entry is empty; write a name, or a name with its stages")
        return given

    @model_validator(mode="before")
    @classmethod
    def _snapshots_on_top(cls, data: Any) -> Any:
        """Settings of `snapshot` hold for each of `snapshots` that does not state its own."""
        if not (isinstance(data, Mapping) and isinstance(data.get("snapshots"), Mapping)):
            return data
        base = data.get("snapshot") or {}
        shared = base.model_dump() if isinstance(base, SnapshotSettings) else base
        if not isinstance(shared, Mapping):
            return data
        several = {
            name: _named(name, {**shared, **own}) if isinstance(own, Mapping) else own
            for name, own in data["snapshots"].items()
        }
        return {**data, "snapshots": several}

    @model_validator(mode="after")
    def _ablation_on_one_snapshot(self) -> Experiment:
        """Steps of an ablation differ by a stage and by nothing else."""
        if self.ablation is not None and self.snapshots:
            raise RagLabError("ablation: works on one snapshot; remove snapshots, or the ablation")
        return self

    @model_validator(mode="after")
    def _corpus_as_it_is(self) -> Experiment:
        """A corpus has its own chunks and indexes; what concerns a corpus needs one."""
        if self.corpus is None and (self.generation is not None or self.freshness is not None):
            field = "generation" if self.generation is not None else "freshness"
            raise RagLabError(f"{field}: concerns a corpus; name it in the field corpus, or remove {field}")
        if self.corpus is not None and (self.snapshots or self.snapshot != SnapshotSettings()):
            field = "snapshots" if self.snapshots else "snapshot"
            raise RagLabError(f"{field}: corpus {self.corpus} was built with settings of its own; remove {field}")
        return self

    @model_validator(mode="before")
    @classmethod
    def _generator_by_name(cls, data: Any) -> Any:
        """``generator: none`` and ``writer: smollm2`` are short for a mapping with that name."""
        if not isinstance(data, Mapping):
            return data
        if isinstance(data.get("ablation"), str):
            data = {**data, "ablation": {"variant": data["ablation"]}}
        short = {field: {"name": data[field]} for field in ("generator", "writer") if isinstance(data.get(field), str)}
        return {**data, **short}

    @classmethod
    def load(cls, path: Path | str) -> Experiment:
        """Read an experiment file (YAML). Errors name file, field and fix."""
        found = cls.load_all(path)
        if len(found) > 1:
            raise RagLabError(
                f"{path}: has {len(found)} datasets; run it by rag-lab run, or read it by Experiment.load_all"
            )
        return found[0]

    @classmethod
    def load_all(cls, path: Path | str) -> list[Experiment]:
        """Read an experiment file that may list `datasets` in place of `dataset`: one experiment for each.

        An entry is a dataset, or a mapping with its own fields on top of the file's. Each is called by the file's name
        and its dataset's.
        """
        path = Path(path)
        data = {"name": path.stem, **read_yaml(path)}
        if isinstance(data.get("prices"), str):
            data["prices"] = str(path.parent / data["prices"])
        if "datasets" not in data:
            return [cls.read(data, str(path))]
        listed = data.pop("datasets")
        if "dataset" in data:
            raise RagLabError(f"{path}: dataset: the file lists datasets; remove one of the two")
        if not isinstance(listed, list) or not listed:
            raise RagLabError(f"{path}: datasets: must be a list of datasets, or of mappings with a field dataset")
        found = []
        for number, entry in enumerate(listed, 1):
            own = dict(entry) if isinstance(entry, Mapping) else {"dataset": entry}
            name = Path(str(own.get("dataset", number))).name
            found.append(cls.read({**data, "name": f"{data['name']}-{name}", **own}, f"{path}: datasets[{number}]"))
        if repeated := {one.name for one in found if [other.name for other in found].count(one.name) > 1}:
            raise RagLabError(f"{path}: datasets: '{min(repeated)}' stands for two; give one a name of its own")
        return found

    @classmethod
    def read(cls, data: Mapping[str, Any], place: str = "experiment") -> Experiment:
        """Check a mapping; `place` names it in errors."""
        try:
            experiment = cls.model_validate({"name": "experiment", **data})
            experiment.budgets()
            experiment.variant_definitions()
        except ValidationError as error:
            raise RagLabError(f"{place}: {explain(error)}") from error
        except RagLabError as error:
            raise RagLabError(f"{place}: {error}") from error
        return experiment

    def budgets(self) -> dict[str, Budget]:
        """The main budget and those of the sweep, by name."""
        base = {name: cap for name, cap in self.budget.items() if cap is not None}
        found = {MAIN: Budget.from_mapping(base)}
        for resource, caps in self.sweep.items():
            if resource not in RESOURCES:
                raise RagLabError(f"sweep.{resource}: unknown resource; use one of {', '.join(RESOURCES)}")
            for cap in caps:
                if base.get(resource) != cap:
                    found[f"{resource}={cap}"] = Budget.from_mapping({**base, resource: cap}, f"sweep.{resource}")
        return found

    def snapshot_settings(self) -> dict[str, SnapshotSettings]:
        """Settings of each snapshot by name; the only one is called main."""
        return dict(self.snapshots) or {MAIN: self.snapshot}

    def variant_definitions(self) -> dict[str, list[Any] | None]:
        """Stages by variant name; None for a name of the catalogue."""
        found: dict[str, list[Any] | None] = {}
        for entry in self.variants:
            named: dict[str, list[Any] | None] = {entry: None} if isinstance(entry, str) else dict(entry)
            for name, stages in named.items():
                if name in found:
                    raise RagLabError(f"variants: '{name}' is listed twice")
                found[name] = stages
        for switch in self.switches(found):
            found.setdefault(switch.variant.name, switch.variant.to_yaml())
        return found

    def switches(self, definitions: Mapping[str, list[Any] | None]) -> list[Switch]:
        """The steps of the ablation, none without one."""
        if self.ablation is None:
            return []
        name = self.ablation.variant
        if name not in definitions:
            raise RagLabError(
                f"ablation.variant: '{name}' is not one of the variants; name one of {', '.join(definitions)}"
            )
        return switches(load_variant(name, definitions[name]))


def _named(name: Any, snapshot: dict[str, Any]) -> dict[str, Any]:
    """Settings of one of several snapshots with its chunker loaded, whose errors then name that snapshot."""
    if not isinstance(snapshot.get("chunker"), str | Mapping):
        return snapshot
    try:
        return {**snapshot, "chunker": SnapshotSettings.model_validate({"chunker": snapshot["chunker"]}).chunker}
    except RagLabError as error:
        raise RagLabError(str(error).replace("snapshot.", f"snapshots.{name}.", 1)) from error
