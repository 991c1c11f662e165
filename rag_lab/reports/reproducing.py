"""The sections on what was asked, what was held equal, and what it takes to get the same numbers again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import yaml

from rag_lab.reports.blocks import Block, Code, Column, Facts, Paragraph, Section, Table, cell, texts
from rag_lab.reports.numbers import DASH, RESOURCE_LABELS, amount, count, known, score
from rag_lab.reports.selection import Selection

if TYPE_CHECKING:
    from rag_lab.results import Results


def question_of(results: Results, selection: Selection) -> str:
    """The experiment's own question, or the one that its variants pose."""
    for name in ("question", "description"):
        asked = results.experiment.get(name)
        if isinstance(asked, str) and asked.strip():
            return asked.strip()
    others = [v for v in selection.contenders if v != selection.baseline]
    dataset = results.dataset.get("name", "the dataset")
    if not others:
        return f"How well does {selection.baseline} do on {dataset}?"
    return f"Does {' or '.join(others)} do better than {selection.baseline} on {dataset}, under the same budget?"


def question_section(results: Results, selection: Selection) -> Section:
    """The question, and the questions it was put to."""
    dataset = results.dataset
    facts = [
        ("Dataset", _dataset_name(dataset)),
        ("Documents", count(dataset.get("documents"))),
        ("Questions", count(dataset.get("queries"))),
        ("Languages", texts([str(x) for x in dataset.get("languages", [])])),
        ("Groups", texts([f"{name} {size:,}" for name, size in dict(dataset.get("groups", {})).items()])),
        ("Rights", _RIGHTS.get(str(dataset.get("rights")), DASH)),
        ("Compared with", f"{selection.baseline} (baseline)"),
        ("Primary metric", selection.primary),
    ]
    return Section(
        "The question asked",
        "question",
        (Paragraph(question_of(results, selection)), Facts(tuple(pair for pair in facts if pair[1] != DASH))),
    )


_RIGHTS = {
    "open": "the dataset states none: every question may use every document",
    "declared": "declared by the documents and applied before ranking",
}


def _dataset_name(dataset: Mapping[str, Any]) -> str:
    split = dataset.get("split")
    return str(dataset.get("name", DASH)) + (f", split {split}" if split else "")


def equal_section(results: Results, selection: Selection) -> Section:
    """What all variants shared, and the stages in which they differ."""
    shared = [
        ("Snapshot", f"{results.snapshot}: the same documents, chunks and indexes"),
        ("Questions", f"the same {count(results.dataset.get('queries'))}, with the same rights and times"),
        ("Seed", str(results.seed)),
    ]
    calibration = results.calibration
    if calibration:
        shared.append(("Reader", _calibration(calibration)))
    blocks: list[Block] = [Facts(tuple(shared)), _caps(results, selection), _pipelines(results, selection)]
    if selection.bounds:
        blocks.append(
            Paragraph(f"{' and '.join(selection.bounds)}: bounds that show the scale, not contenders; same generator.")
        )
    return Section("What was held equal", "equal", tuple(blocks))


def _calibration(calibration: Mapping[str, Any]) -> str:
    threshold = calibration.get("threshold")
    value = score(threshold) if isinstance(threshold, int | float) else str(threshold)
    return (
        f"{calibration.get('reader')}, abstains below {value}; set on {count(calibration.get('questions'))} questions "
        f"that are not scored (rule: {calibration.get('rule')})"
    )


def _caps(results: Results, selection: Selection) -> Block:
    budgets = {name: dict(results.budgets.get(name, {})) for name in selection.budgets}
    capped = [r for r in RESOURCE_LABELS if any(known(caps.get(r)) for caps in budgets.values())]
    if not capped:
        return Paragraph("No resource was capped. Compare what was used before comparing scores.")
    columns = (Column("budget", "name"), *(Column(RESOURCE_LABELS[r]) for r in capped))
    rows = tuple(
        (
            cell(selection.label(name), name if selection.label(name) != name else ""),
            *(cell(amount(caps[r], r) if known(caps.get(r)) else "open") for r in capped),
        )
        for name, caps in budgets.items()
    )
    others = [label for r, label in RESOURCE_LABELS.items() if r not in capped]
    note = f"Open: {', '.join(others)}." if others else ""
    return Table("Caps per question, the same for every variant", columns, rows, note)


def _pipelines(results: Results, selection: Selection) -> Table:
    rows = tuple(
        (cell(variant), cell(" → ".join(_stage(s) for s in results.variants.get(variant, [])) or "no stage"))
        for variant in selection.variants
    )
    return Table("The variants", (Column("variant", "name"), Column("stages", "text")), rows)


def _stage(stage: Any) -> str:
    if not isinstance(stage, Mapping):
        return str(stage)
    items = dict(stage)
    name = str(items.pop("stage", "")) or str(items.pop("name", ""))
    if not name and len(items) == 1:
        name, inner = next(iter(items.items()))
        items = dict(inner) if isinstance(inner, Mapping) else {}
    settings = ", ".join(f"{key} {value}" for key, value in items.items() if value is not None)
    return f"{name} ({settings})" if settings else str(name)


def reproduce_section(results: Results) -> Section:
    """Everything that the same numbers need."""
    known_facts = results.provenance
    named = (
        ("Code version", "code_version"),
        ("Python", "python"),
        ("Platform", "platform"),
        ("Started", "started"),
        ("Finished", "finished"),
        ("Seconds", "seconds"),
        ("Experiment file", "experiment_file"),
        ("Price file", "price_file"),
        ("Compute, US dollars an hour", "compute_usd_per_hour"),
    )
    origin = (("Source of the dataset", "source"), ("Licence of the dataset", "licence"))
    facts = [
        ("Seed", str(results.seed)),
        ("Snapshot", results.snapshot),
        ("Dataset", f"{results.dataset.get('name')}, fingerprint {results.dataset.get('fingerprint')}"),
        *((label, str(results.dataset[key])) for label, key in origin if results.dataset.get(key)),
        *((label, str(known_facts[key])) for label, key in named if known_facts.get(key)),
        (
            "Statistics",
            f"{count(known_facts.get('resamples'))} bootstrap resamples, {count(known_facts.get('permutations'))} "
            f"permutations, confidence {known_facts.get('confidence', DASH)}; the unit is the question",
        ),
    ]
    blocks: list[Block] = []
    if known_facts.get("command"):
        blocks += [Paragraph("The command:"), Code(str(known_facts["command"]))]
    blocks.append(Facts(tuple(facts)))
    for caption, key in (("Models", "models"), ("Packages", "packages")):
        items = dict(known_facts.get(key) or {})
        if items:
            blocks.append(_versions(caption, items))
    blocks += _integrity(results)
    text = yaml.safe_dump(_plain(results.experiment), sort_keys=False, allow_unicode=True, width=100)
    blocks += [Paragraph("The experiment in full:"), Code(text)]
    blocks.append(
        Paragraph(
            "Beside this report lie results.json, tables/ with every number by question (Parquet), runs/ with the "
            "rankings in TREC form, and figures/.",
            "note",
        )
    )
    return Section("To reproduce it", "reproduce", tuple(blocks))


def _versions(caption: str, items: Mapping[str, Any]) -> Table:
    rows = tuple((cell(str(name)), cell(str(version))) for name, version in items.items())
    return Table(caption, (Column("name", "name"), Column("version", "text")), rows)


def _integrity(results: Results) -> list[Block]:
    counts = {k: v for k, v in dict(results.dataset.get("integrity", {})).items() if isinstance(v, int | float)}
    if not counts:
        return []
    rows = tuple((cell(str(name).replace("_", " ")), cell(count(value))) for name, value in counts.items() if value)
    note = f"{len(counts) - len(rows)} more checks found nothing." if len(rows) < len(counts) else ""
    return [Table("Integrity of the dataset", (Column("what was counted", "name"), Column("count")), rows, note)]


def _plain(value: Any) -> Any:
    """Only what YAML can write safely: other objects become their text."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
