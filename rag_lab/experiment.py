"""Run an experiment: variants x budgets (x snapshots) over one dataset and one set of rights, to `Results`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rag_lab.ablation import steps
from rag_lab.contracts import CacheUse, RagLabError
from rag_lab.corpus.deny import DenyList
from rag_lab.corpus.snapshot import Snapshot
from rag_lab.definition import MAIN, Experiment
from rag_lab.generation.abstention import agreement
from rag_lab.metrics.chunks import chunk_measures
from rag_lab.metrics.evidence import Evidence
from rag_lab.metrics.summary import Settings
from rag_lab.preparation import Preparation
from rag_lab.progress import Progress
from rag_lab.provenance import environment
from rag_lab.results import Results, frame
from rag_lab.scoring import Judged, Scorer, notes_of
from rag_lab.store import Store
from rag_lab.variants.execute import ATTEMPTS, Memory, run_variant
from rag_lab.variants.handing_out import hand_out
from rag_lab.variants.stage import Ran, State, cache_use


def run(
    experiment: Experiment | Mapping[str, Any] | str | Path | None = None,
    *,
    store: Store | None = None,
    progress: bool = True,
    **fields: Any,
) -> Results:
    """Run an experiment and return its results.

    `experiment` is a definition, a mapping, or the path of an experiment file; `fields` override or replace its fields.
    Finished work is kept in `store` (the user's by default), so a second run reads and an interrupted one goes on.
    """
    definition = _definition(experiment, fields)
    place = store or Store.default()
    others = _with_other_generators(definition, place, progress)
    with Progress(progress) as bars:
        for _ in range(ATTEMPTS):
            work = Preparation(definition, place, bars)
            results = _handed_out(work, lambda work: _results(work, _run_all(work), others))
            if results is not None:
                return results
        states = _run_all(work)
        for _ in range(ATTEMPTS):
            checked = {key: _checked(state) for key, state in states.items()}
            results = _handed_out(work, lambda work: _results(work, checked, others))  # noqa: B023 - called at once
            if results is not None:
                return results
    raise RagLabError(f"run: documents of {work.corpus} are denied faster than it can be scored; run it again")


def _handed_out(work: Preparation, make: Callable[[Preparation], Results]) -> Results | None:
    """Results read back or made, and kept if they are whole; None where documents were denied meanwhile."""
    key = work.key
    kept = work.store.intact("results", key)
    results = Results.load(work.store.path("results", key)) if kept else make(work)
    with DenyList(work.store).reading(work.corpus) as denials:
        if work.key != key:
            return None
        results.provenance["denials"] = {"corpus": work.corpus, "epoch": denials.epoch}
        if not kept and not results.failures:
            work.store.publish(
                "results", key, lambda at: {"results": results.save(at).name, "snapshots": results.snapshot.split(", ")}
            )
        return results


def _checked(state: State) -> State:
    """The state without what is denied by now."""
    with hand_out(state) as checked:
        return checked


def _definition(
    experiment: Experiment | Mapping[str, Any] | str | Path | None, fields: Mapping[str, Any]
) -> Experiment:
    if isinstance(experiment, str | Path):
        experiment = Experiment.load(experiment)
    if not isinstance(experiment, Experiment | Mapping | None):
        raise RagLabError(f"experiment: must be an Experiment, a mapping or a path, not {type(experiment).__name__}")
    base = experiment.model_dump() if isinstance(experiment, Experiment) else dict(experiment or {})
    return Experiment.read({**base, **fields})


def _run_all(work: Preparation) -> dict[tuple[str, str], State]:
    """Every variant under every budget, by the names of both."""
    batches = {name: work.batch(work.dataset.questions, work.generator, name) for name in work.settings}
    memory = Memory()
    states: dict[tuple[str, str], State] = {}
    for budget_name, budget in work.budgets.items():
        for name, variant in work.trained.items():
            work.label = f"{name} {'' if budget_name == MAIN else budget_name + ' '}"
            states[name, budget_name] = run_variant(variant, batches[work.snapshot_of[name]], budget, memory)
    return states


def ablate(
    variant: str | Mapping[str, Sequence[Any]],
    experiment: Experiment | Mapping[str, Any] | str | Path | None = None,
    *,
    generators: Sequence[str | Mapping[str, Any]] = (),
    store: Store | None = None,
    progress: bool = True,
    **fields: Any,
) -> Results:
    """Run an experiment on one variant, whole and with one stage less or more; see the frame `ablation`.

    `variant` is a name of the catalogue or a mapping of a name to its stages; `generators` answer as well, on the whole
    variant alone. Caps of ``sweep={"context_tokens": [...]}`` are steps of their own. The rest is as in `run`.
    """
    name = variant if isinstance(variant, str) else next(iter(variant))
    ablation = {"variant": name, "generators": list(generators)}
    fields |= {"variants": [variant], "ablation": ablation, "baseline": name}
    return run(experiment, store=store, progress=progress, **fields)


def _with_other_generators(definition: Experiment, store: Store, progress: bool) -> dict[str, Results]:
    """The whole variant of an ablation with each of its other generators, by their names."""
    if definition.ablation is None:
        return {}
    name = definition.ablation.variant
    whole = {name: definition.variant_definitions()[name]}
    changes: dict[str, Any] = {
        "ablation": None,
        "baseline": None,
        "sweep": {},
        "variants": [name if whole[name] is None else whole],
    }
    return {
        generator.name: run(definition, store=store, progress=progress, generator=generator.model_dump(), **changes)
        for generator in definition.ablation.generators
    }


def _results(
    work: Preparation, states: Mapping[tuple[str, str], State], others: Mapping[str, Results] | None = None
) -> Results:
    """Score the states and put the results together; `others`: the same with other generators, for an ablation."""
    scorer = Scorer(work.dataset, work.metric_names, _statistics(work.definition))
    judged = [scorer.judge(name, budget_name, state) for (name, budget_name), state in states.items()]
    failures = [
        failure for (name, budget_name), state in states.items() for failure in _failures(name, budget_name, state)
    ]
    work.bars.update("scoring", 0, 1)
    work.warnings += _foreign_questions(work)
    frames: dict[str, Any] = scorer.frames(judged, work.baseline)
    results = Results(
        **frames,
        ablation=frame("ablation", []),
        dataset=work.dataset.summary() | {"not_measured": _not_measured(work, judged)},
        snapshots=frame("snapshots", _snapshot_rows(work)),
        snapshot=", ".join(snapshot.id for snapshot in work.snapshots.values()),
        seed=work.definition.seed,
        experiment=_as_defined(work.definition),
        variants={name: variant.to_yaml() for name, variant in work.variants.items()},
        budgets={name: budget.caps() for name, budget in work.budgets.items()},
        warnings=list(dict.fromkeys(work.warnings)),
        calibration=work.calibration,
        failures=failures,
        provenance=_provenance(work, states.values())
        | {"notes": notes_of([one for one in judged if one.budget == MAIN])},
        runs={_run_name(one): one.run for one in judged if one.run},
    )
    results.ablation = steps(work.definition, results, others or {})
    return results


def _statistics(definition: Experiment) -> Settings:
    """How intervals and tests are computed."""
    chosen = definition.statistics
    return Settings(chosen.resamples, chosen.permutations, chosen.confidence, definition.seed)


def _not_measured(work: Preparation, judged: Sequence[Judged]) -> dict[str, str]:
    """Metrics that no variant has, with the reason."""
    known = work.dataset.not_measured()
    scored = {name for one in judged for name in one.scores}
    reason = "no variant could be scored on it" if work.generates else "the experiment generates no answers"
    return {name: known.get(name, reason) for name in work.metric_names if name not in scored}


def _as_defined(definition: Experiment) -> dict[str, Any]:
    """The definition for the results. A corpus was built with settings of its own, so there are none of a snapshot."""
    left_out = {"snapshot", "snapshots"} if definition.corpus else set()
    return definition.model_dump(mode="json", exclude_none=True, exclude=left_out)


def _foreign_questions(work: Preparation) -> list[str]:
    """A warning when questions are in a language that the corpus does not have."""
    known = set(work.dataset.languages)
    foreign = sorted({question.language for question in work.dataset.questions} - known - {""})
    if not foreign or not known:
        return []
    languages = ", ".join(work.dataset.languages)
    return [f"questions in {', '.join(foreign)} are asked of a corpus in {languages}: BM25 can only find shared words"]


def _provenance(work: Preparation, states: Collection[State]) -> dict[str, Any]:
    """Everything needed to trace a figure."""
    models = {"generator": f"{work.generator.name} {work.generator.version}"} if work.generates else {}
    if work.writer:
        models["writer"] = f"{work.writer.name} {work.writer.version}"
    models |= work.models
    used = [work.encoders[name] for name in work.settings if work.encodes(name)]
    if used:
        models["encoder"] = ", ".join(dict.fromkeys(f"{encoder.name} {encoder.version}" for encoder in used))
    if late := dict.fromkeys(f"{encoder.name} {encoder.version}" for encoder in work.late_encoders.values()):
        models["colbert"] = ", ".join(late)
    if work.sparse_encoders:
        models["splade"] = ", ".join(f"{encoder.name} {encoder.version}" for encoder in work.sparse_encoders.values())
    chosen = work.definition.statistics
    detector = {}
    if work.generates and work.generator.calls:
        found = agreement()
        detector = {"abstention_detector": {"version": found.version, "agreement": found.share, "n": found.n}}
    finished = datetime.now(UTC)
    first: dict[str, Ran] = {}
    for ran in (ran for state in states for ran in state.ran):
        first.setdefault(ran.key, ran)
    freshness = work.definition.freshness
    corpus = {"corpus": work.held.facts(freshness.plain() if freshness else None)} if work.held else {}
    return {
        **environment(),
        **detector,
        **corpus,
        "key": work.key,
        "models": models,
        "learned": work.lessons,
        "snapshots": {name: _facts(snapshot) for name, snapshot in work.snapshots.items()},
        "started": work.started.isoformat(timespec="seconds"),
        "finished": finished.isoformat(timespec="seconds"),
        "seconds": round((finished - work.started).total_seconds(), 1),
        "caches": _caches([*work.embedded, *cache_use(first.values())]),
        "price_file": work.prices.path,
        "compute_usd_per_hour": work.prices.compute_usd_per_hour,
        "resamples": chosen.resamples,
        "permutations": chosen.permutations,
        "confidence": chosen.confidence,
    }


def _caches(uses: Iterable[CacheUse]) -> dict[str, dict[str, int]]:
    """Hits and misses by the name of the cache."""
    found: dict[str, dict[str, int]] = {}
    for use in uses:
        sums = found.setdefault(use.cache, {"hits": 0, "misses": 0})
        sums["hits"] += use.hits
        sums["misses"] += use.misses
    return found


def _facts(snapshot: Snapshot) -> dict[str, Any]:
    facts = ("versions", "documents", "chunks", "published_at")
    return {"id": snapshot.id} | {key: snapshot.facts[key] for key in facts}


def _snapshot_rows(work: Preparation) -> list[dict[str, Any]]:
    """What the chunkers made, where the experiment names several snapshots; none for the only one of an experiment.

    Documents that are denied, and gold evidence in them, count as if they were not there.
    """
    rows: list[dict[str, Any]] = []
    if not work.definition.snapshots:
        return rows
    denied = work.denied()
    documents = [document for document in work.dataset.documents if document.document_id not in denied]
    questions = [
        replace(question, gold=tuple(piece for piece in question.gold if piece.document_id not in denied))
        for question in work.dataset.questions
    ]
    gold = {piece.document_id for question in questions for piece in question.gold}
    evidence = Evidence.of(questions, {d.document_id: d.text for d in documents if d.document_id in gold})
    for name in work.definition.snapshots:
        chunks = work.snapshots[name].chunks.without(denied)
        measures = chunk_measures(
            chunks,
            documents,
            questions,
            evidence,
            work.encoders[name].count_tokens(chunks.text),
            _statistics(work.definition),
        )
        rows += [
            {
                "snapshot": name,
                "chunker": work.chunkers[name].version,
                "measure": measure.name,
                "unit": measure.unit,
                "value": measure.value,
                "ci_low": measure.low,
                "ci_high": measure.high,
                "n": measure.n,
                "note": measure.note,
            }
            for measure in measures
        ]
    return rows


def _failures(variant: str, budget: str, state: State) -> list[dict[str, Any]]:
    causes: dict[tuple[str, str], int] = {}
    for failure in state.failures.values():
        causes[failure.stage, failure.cause] = causes.get((failure.stage, failure.cause), 0) + 1
    return [
        {"variant": variant, "budget": budget, "stage": stage, "cause": cause, "questions": count}
        for (stage, cause), count in causes.items()
    ]


def _run_name(one: Judged) -> str:
    return one.variant if one.budget == MAIN else f"{one.variant}@{one.budget}"
