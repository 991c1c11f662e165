"""Scores that are expected, published ones and our own: which of them come out here, and which cannot be run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, ValidationError, field_validator, model_validator

from rag_lab.contracts import RagLabError, Unavailable
from rag_lab.definition import MAIN, DatasetSettings, Experiment, Settings, SnapshotSettings
from rag_lab.experiment import run
from rag_lab.metrics import metric
from rag_lab.results import Results
from rag_lab.retrieval.encoders.sentence import quiet_loading
from rag_lab.store import Store
from rag_lab.validation import explain, read_yaml
from rag_lab.variants import load_variant

FILE = "experiments/expected_scores.yaml"
HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
EntryName = Annotated[str, StringConstraints(pattern=r"^\w[\w .+-]{0,63}$")]
Status = Literal["met", "missed", "not runnable"]


class Expected(Settings):
    """A score of one metric. It is met when what comes out differs by `tolerance` at most.

    `source` says who measured it and `where` in which place that can be read; `differs` what is not as in the source.
    """

    metric: str
    value: float
    tolerance: float = Field(ge=0)
    source: Literal["published", "own"]
    where: str = Field(min_length=1)
    differs: str = ""

    @field_validator("metric")
    @classmethod
    def _known(cls, given: str) -> str:
        metric(given)
        return given


class Entry(Settings):
    """One variant on one dataset, by a name of the catalogue or its stages, and the scores that are expected of it."""

    dataset: str
    dataset_options: DatasetSettings = DatasetSettings()
    split: str = "test"
    seed: int = Field(0, ge=0, lt=2**32)
    snapshot: SnapshotSettings = SnapshotSettings()
    variant: str | list[Any]
    expected: list[Expected] = Field(min_length=1)

    @model_validator(mode="after")
    def _variant_is_one(self) -> Entry:
        load_variant(*self.named("entry"))
        return self

    def named(self, entry: str) -> tuple[str, list[Any] | None]:
        """The variant's name and its stages; stages of its own go by the name of the `entry`."""
        return (self.variant, None) if isinstance(self.variant, str) else (entry, self.variant)

    def experiment(self, name: str) -> Experiment:
        """What is run: retrieval alone, without a budget."""
        variant, stages = self.named(name)
        return Experiment(
            name=name,
            dataset=self.dataset,
            dataset_options=self.dataset_options,
            split=self.split,
            seed=self.seed,
            snapshot=self.snapshot,
            generator={"name": "none"},
            variants=[variant if stages is None else {variant: stages}],
            metrics=list(dict.fromkeys(one.metric for one in self.expected)),
        )

    def hub_models(self, name: str) -> list[str]:
        """Models of the hub that the snapshot and the stages name; a folder of that name on this machine is none."""
        variant = load_variant(*self.named(name))
        named = _strings([self.snapshot.model_dump(mode="json"), variant.to_yaml()])
        return [text for text in dict.fromkeys(named) if HUB_NAME.fullmatch(text) and not Path(text).exists()]


class ExpectedScores(Settings):
    """Entries by name. `defaults` are fields of all entries that do not state them."""

    defaults: dict[str, Any] = Field(default_factory=dict)
    entries: dict[EntryName, Entry] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _on_top(cls, data: Any) -> Any:
        defaults, entries = data.get("defaults", {}), data.get("entries")
        if not (isinstance(defaults, Mapping) and isinstance(entries, Mapping)):
            return data
        whole = {n: {**defaults, **own} if isinstance(own, Mapping) else own for n, own in entries.items()}
        return {**data, "entries": whole}

    @classmethod
    def load(cls, path: Path | str) -> ExpectedScores:
        """Read a file (YAML). Errors name file, field and fix."""
        path = Path(path)
        try:
            return cls.model_validate(read_yaml(path, FILE))
        except ValidationError as error:
            raise RagLabError(f"{path}: {explain(error)}") from error
        except RagLabError as error:
            raise RagLabError(str(error) if str(error).startswith(str(path)) else f"{path}: {error}") from error

    def chosen(self, name: str | None) -> dict[str, Entry]:
        """The entry of that name, or those on the dataset of that name; all without one."""
        found = {entry: one for entry, one in self.entries.items() if name in (None, entry) or one.dataset == name}
        if not found:
            known = ", ".join(dict.fromkeys([*self.entries, *(one.dataset for one in self.entries.values())]))
            raise RagLabError(f"{name}: no expected score is called so, nor is it on such a dataset; known are {known}")
        return found


@dataclass(frozen=True, slots=True)
class Cell:
    """One expected score and what came out. `found` is None where nothing did, and `note` says why."""

    entry: str
    expected: Expected
    found: float | None
    status: Status
    note: str = ""


def reproduce(
    scores: ExpectedScores, name: str | None = None, *, store: Store | None = None, progress: bool = True
) -> Iterator[Cell]:
    """Run the chosen entries one after the other, and compare. Finished work is kept in `store`, as that of any run.

    A dataset or a model that is not here and cannot be fetched makes an entry's cells *not runnable*. An error, or a
    stage that failed, makes them *missed*.
    """
    absent: dict[str, str] = {}
    for entry_name, entry in scores.chosen(name).items():
        try:
            for model in entry.hub_models(entry_name):
                if model not in absent:
                    absent[model] = _absence(model)
                if absent[model]:
                    raise Unavailable(absent[model])
            results = run(entry.experiment(entry_name), store=store, progress=progress)
        except Unavailable as absence:
            yield from (Cell(entry_name, one, None, "not runnable", str(absence)) for one in entry.expected)
        except RagLabError as error:
            yield from (Cell(entry_name, one, None, "missed", str(error)) for one in entry.expected)
        else:
            yield from (compare(entry_name, one, results) for one in entry.expected)


def compare(entry: str, expected: Expected, results: Results) -> Cell:
    """The cell of one expected score in the results of its entry."""
    failed = "; ".join(
        f"{one['questions']} questions failed in stage {one['stage']}: {one['cause']}" for one in results.failures
    )
    table = results.metrics
    row = table[(table["budget"] == MAIN) & (table["group"] == "all") & (table["metric"] == expected.metric)]
    if row.empty or row["value"].isna().any():
        reason = results.dataset.get("not_measured", {}).get(expected.metric, "it was not measured")
        return Cell(entry, expected, None, "missed", failed or str(reason))
    found = float(row["value"].iloc[0])
    # A difference of exactly the tolerance is met, also where binary fractions make it a little more.
    near = abs(found - expected.value) <= expected.tolerance + 1e-9
    return Cell(entry, expected, found, "met" if near and not failed else "missed", failed)


def _absence(model: str) -> str:
    """Why neither the hub nor its cache on this machine has the model, "" if one of them has."""
    from huggingface_hub import hf_hub_download

    try:
        with quiet_loading():
            hf_hub_download(model, "config.json")
    except (OSError, ValueError) as error:
        why = (str(error).strip() or type(error).__name__).splitlines()[0]
        return f"model {model}: not in the hub's cache, and the hub does not give it ({why})"
    return ""


def _strings(value: Any) -> Iterator[str]:
    """Every text in nested lists and mappings."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _strings(item)
