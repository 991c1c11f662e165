"""The sections on what was asked, what was held equal, and what it takes to get the same numbers again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import yaml

from rag_lab.reports.blocks import Block, Code, Column, Facts, Paragraph, Section, Table, cell, texts
from rag_lab.reports.numbers import (
    DASH,
    RESOURCE_LABELS,
    amount,
    count,
    known,
    listed,
    plural,
    resource_heading,
    score,
    share,
)
from rag_lab.reports.selection import Selection

if TYPE_CHECKING:
    from rag_lab.results import Results

YAML_WIDTH = 44  # columns, so that the definition can be set in two columns of a page


def question_of(results: Results, selection: Selection) -> str:
    """The experiment's own question, or the one that its variants pose."""
    asked = str(results.experiment.get("question", "")).strip()
    if asked:
        return asked
    others = [v for v in selection.contenders if v != selection.baseline]
    dataset = results.dataset.get("name", "the dataset")
    if not others:
        return f"How well does {selection.baseline} do on {dataset}?"
    return f"Does {' or '.join(others)} do better than {selection.baseline} on {dataset}, under the same budget?"


def question_section(results: Results, selection: Selection) -> Section:
    """The question, and the questions it was put to."""
    dataset, corpus = results.dataset, results.provenance.get("corpus")
    facts = [
        ("Dataset", _dataset_name(dataset)),
        ("Size", _size(dataset, corpus)),
        (
            "Groups",
            texts([f"{name} {size:,}" for name, size in dict(dataset.get("groups", {})).items() if name != "all"]),
        ),
        ("Rights", f"those of corpus {corpus['name']}, applied before ranking" if corpus else _rights(dataset)),
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


def _rights(dataset: Mapping[str, Any]) -> str:
    return _RIGHTS.get(str(dataset.get("rights")), DASH)


def _size(dataset: Mapping[str, Any], corpus: Mapping[str, Any] | None) -> str:
    """How much was searched and asked: on a corpus, the dataset's own documents are not searched."""
    languages = [str(name) for name in dataset.get("languages", [])]
    held = (
        f"{count(corpus['documents'])} documents of the corpus"
        if corpus
        else f"{count(dataset.get('documents'))} documents"
    )
    size = f"{held}, {count(dataset.get('queries'))} questions"
    return size + (f", in {listed(languages)}" if languages else "")


def _dataset_name(dataset: Mapping[str, Any]) -> str:
    split = dataset.get("split")
    return str(dataset.get("name", DASH)) + (f", split {split}" if split else "")


def equal_section(results: Results, selection: Selection) -> Section:
    """What all variants shared, and the stages in which they differ."""
    shared = [
        _snapshots(results),
        ("Questions", f"the same {count(results.dataset.get('queries'))}, with the same rights and times"),
        ("Seed", str(results.seed)),
    ]
    calibration = results.calibration
    if calibration:
        shared.append(("Reader", _calibration(calibration)))
    detector = results.provenance.get("abstention_detector")
    if detector:
        shared.append(("Abstention", _detector(detector)))
    shared += [("Learned", _lesson(lesson)) for lesson in results.provenance.get("learned") or []]
    blocks = (Facts(tuple(shared)), _caps(results, selection), _pipelines(results, selection))
    return Section("What was held equal", "equal", blocks)


def _snapshots(results: Results) -> tuple[str, str]:
    if results.snapshots.empty:
        return "Snapshot", f"{results.snapshot}: the same documents, chunks and indexes"
    names = list(dict.fromkeys(results.snapshots["snapshot"].astype(str)))
    return "Snapshots", f"the same documents in each of {listed(names)}, cut in different ways"


def _calibration(calibration: Mapping[str, Any]) -> str:
    threshold = calibration.get("threshold")
    value = score(threshold) if isinstance(threshold, int | float) else str(threshold)
    found = [f"reached {score(calibration['score'])}"] if known(calibration.get("score")) else []
    found += [f"AUC of the confidence {score(calibration['auc'])}"] if known(calibration.get("auc")) else []
    variants = [str(v) for v in calibration.get("variants") or []]
    of = f" of {listed(variants)}" if variants else ""
    return (
        f"{calibration.get('reader')}, abstains below a confidence of {value} in every variant; set on "
        f"{count(calibration.get('questions'))} questions{of} that are not scored. Rule: {calibration.get('rule')}"
        + (f" ({', '.join(found)})." if found else ".")
    )


def _lesson(lesson: Mapping[str, Any]) -> str:
    """What a stage learned, and on what."""
    what = f"{lesson.get('stage')} of {lesson.get('variant')}"
    weights = {str(name): score(weight) for name, weight in (lesson.get("weights") or {}).items()}
    given = f": weights {listed([f'{name} {weight}' for name, weight in weights.items()])}" if weights else ""
    on = (
        f", learned on {count(lesson.get('questions'))} training questions of split '{lesson.get('split')}', none of "
        "which is scored"
    )
    reached, equal = lesson.get("score"), lesson.get("equal")
    there = f". {lesson.get('metric')} there: {score(reached)}, with equal weights {score(equal)}" if weights else ""
    return f"{what}{given}{on}{there}."


def _detector(detector: Mapping[str, Any]) -> str:
    agreement = detector.get("agreement")
    of = f" on {count(detector['n'])} labelled answers" if known(detector.get("n")) else ""
    measured = f"; it agrees with the labels in {share(agreement)}{of}" if known(agreement) else ""
    return f"told from answers by detector {detector.get('version')}{measured}"


def _caps(results: Results, selection: Selection) -> Block:
    budgets = {name: dict(results.budgets.get(name, {})) for name in selection.budgets}
    capped = [r for r in RESOURCE_LABELS if any(known(caps.get(r)) for caps in budgets.values())]
    if not capped:
        return Paragraph("No resource was capped. Compare what was used before comparing scores.")
    columns = (Column("budget", "name"), *(Column(resource_heading(r), "count") for r in capped))
    rows = tuple(
        (
            cell(selection.label(name), aside=f"({name})" if selection.label(name) != name else ""),
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
    bounds = f"{listed(selection.bounds)}: bounds that show the scale, not contenders." if selection.bounds else ""
    return Table("The variants", (Column("variant", "name"), Column("stages", "text")), rows, bounds)


def _stage(stage: Mapping[str, Mapping[str, Any]]) -> str:
    """``bm25 (depth 1000, k1 0.9)``, from a stage as it stands in YAML."""
    ((name, settings),) = stage.items()
    shown = ", ".join(f"{key} {value}" for key, value in settings.items() if value not in (None, {}, []))
    return f"{name} ({shown})" if shown else name


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
        ("USD an hour", "compute_usd_per_hour"),
    )
    origin = (("Dataset source", "source"), ("Dataset licence", "licence"))
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
    facts += [
        (label, ", ".join(f"{name} {version}" for name, version in dict(known_facts[key]).items()))
        for label, key in (("Models", "models"), ("Packages", "packages"))
        if known_facts.get(key)
    ]
    facts += _integrity(results)
    blocks.append(Facts(tuple(facts)))
    text = yaml.safe_dump(_plain(results.experiment), sort_keys=False, allow_unicode=True, width=YAML_WIDTH)
    blocks += [Paragraph("The experiment in full:"), Code(text)]
    blocks.append(
        Paragraph(
            "Beside this report lie results.json, tables/ with every number by question (Parquet), runs/ with the "
            "rankings in TREC form, and figures/.",
            "note",
        )
    )
    return Section("To reproduce it", "reproduce", tuple(blocks))


def _integrity(results: Results) -> list[tuple[str, str]]:
    counts = {k: v for k, v in dict(results.dataset.get("integrity", {})).items() if isinstance(v, int | float)}
    if not counts:
        return []
    found = [f"{str(name).replace('_', ' ')} {count(value)}" for name, value in counts.items() if value]
    nothing = len(counts) - len(found)
    rest = [f"{plural(nothing, 'more check')} found nothing"] if nothing else []
    return [("Integrity", "; ".join([", ".join(found), *rest]))]


def _plain(value: Any) -> Any:
    """Only what YAML can write safely: other objects become their text."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
