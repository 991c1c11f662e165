"""The loss funnel, and the ten worst questions with their evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from rag_lab.reports.blocks import (
    Block,
    Cell,
    Column,
    Excerpt,
    Facts,
    Figure,
    Paragraph,
    Record,
    Section,
    Table,
    cell,
    texts,
)
from rag_lab.reports.literal import excerpt, short
from rag_lab.reports.numbers import count, known, plural, score, share
from rag_lab.reports.selection import Selection

if TYPE_CHECKING:
    from rag_lab.results import Results

STAGES = {
    "ingest": "in no chunk",
    "scope": "not allowed or not in force",
    "candidates": "not retrieved",
    "cut": "lost in fusion or reranking",
    "assembly": "left out of the context",
    "generation": "in context, answer wrong",
    "citation": "answer right, not cited",
    "answered": "answered",
}
WORST = 10
PASSAGES = 3
ANSWER_CHARACTERS = 600
QUESTION_CHARACTERS = 1000

Outcome = dict[str, Any]


def funnel_section(results: Results, selection: Selection) -> Section:
    """For each variant, the first stage that lost the evidence."""
    frame = results.funnel
    if frame.empty or not known(frame["lost"].sum()) or frame["lost"].sum() == 0:
        text = "No question has gold evidence, so the place where evidence was lost cannot be told."
        return Section("Where the evidence was lost", "funnel", (Paragraph(text),))
    totals = frame.groupby(["variant", "budget"], sort=False)["lost"].sum()
    n = plural(int(totals.max()), "question")
    lead = Paragraph(
        f"Each of the {n} with gold evidence is counted once, at the first stage that lost it, so the shares of a "
        "variant add up to 100 %. Questions without gold evidence are in the abstention scores instead."
    )
    outcomes = results.outcomes
    generated = outcomes.empty or (outcomes["state"] != "not_generated").any()
    blind = () if generated else (Paragraph("No answers were generated: “answered” means that the evidence arrived."),)
    figure = Figure(
        "funnel",
        "Share of questions by the first stage that lost their evidence.",
        "Stacked bars of the loss funnel; the table gives the same numbers.",
    )
    stages = [s for s in STAGES if s in set(frame["stage"])]
    rows = {(str(r["variant"]), str(r["budget"]), str(r["stage"])): r for r in frame.to_dict("records")}
    places = [(v, b) for b in selection.budgets for v in selection.variants if any((v, b, s) in rows for s in stages)]
    table = tuple(
        (
            cell(variant),
            *([cell(selection.label(budget))] if selection.sweep else []),
            *(_funnel_cell(rows.get((variant, budget, s))) for s in stages),
        )
        for variant, budget in places
    )
    columns = (
        Column("variant", "name"),
        *([Column("budget", "name")] if selection.sweep else []),
        *(Column(s, detail=STAGES[s] if s != STAGES[s] else "") for s in stages),
    )
    return Section(
        "Where the evidence was lost",
        "funnel",
        (lead, *blind, figure, Table("Questions lost at each stage, and their share", columns, table)),
    )


def _funnel_cell(row: dict[Any, Any] | None) -> Cell:
    if row is None or not known(row["lost"]):
        return cell("–", tone="muted")
    if row["lost"] == 0:
        return cell("0", tone="muted")
    return cell(count(row["lost"]), share(row["share"]))


def worst_questions(results: Results, selection: Selection, limit: int = WORST) -> pd.DataFrame:
    """The questions on which the focal variant loses most, by a fixed rule.

    Largest gap between the best contender and the focal variant first (primary metric, reference budget), then the
    lower score, then the query id. Returns query_id, value, best, gap.
    """
    frame = results.questions
    part = frame[(frame["metric"] == selection.primary) & (frame["budget"] == selection.reference)]
    part = part[part["variant"].isin(selection.contenders)] if selection.contenders else part
    if part.empty:
        return pd.DataFrame(columns=["query_id", "value", "best", "gap"])
    best = part.groupby("query_id")["value"].max()
    own = part[part["variant"] == selection.focal].set_index("query_id")["value"]
    table = pd.DataFrame({"value": own.reindex(best.index).fillna(0.0), "best": best}).reset_index()
    table["gap"] = table["best"] - table["value"]
    return table.sort_values(["gap", "value", "query_id"], ascending=[False, True, True]).head(limit)


def worst_section(results: Results, selection: Selection) -> Section:
    """Ten records, each with every variant's answer and the evidence that was in context."""
    worst = worst_questions(results, selection)
    if worst.empty:
        return Section("Ten worst questions", "worst", (Paragraph("No score by question was kept."),))
    budget = selection.reference
    rule = (
        f"The {plural(len(worst), 'question')} on which {selection.focal} loses most against the best contender, by "
        f"{selection.primary}{selection.where(budget)}; ties go to the lower score, then to the question's id. It is "
        "shown because it is the last contender of the experiment that is not the baseline. Passages are cut to their "
        "beginning and shown only where they were in the context of that very question."
    )
    frame = results.outcomes
    frame = frame[(frame["budget"] == budget) & frame["query_id"].isin(worst["query_id"])]
    outcomes: dict[str, dict[str, Outcome]] = {}
    for row in frame.to_dict("records"):
        outcomes.setdefault(str(row["query_id"]), {})[str(row["variant"])] = {str(k): v for k, v in row.items()}
    scored = results.questions
    scored = scored[(scored["metric"] == selection.primary) & (scored["budget"] == budget)]
    values = {(str(r["query_id"]), str(r["variant"])): r["value"] for r in scored.to_dict("records")}
    blocks: list[Block] = [Paragraph(rule)]
    for number, row in enumerate(worst.to_dict("records"), start=1):
        found = outcomes.get(str(row["query_id"]))
        if found:
            blocks.append(_record(number, row, found, values, selection))
    return Section("Ten worst questions", "worst", tuple(blocks))


def _record(
    number: int,
    row: dict[Any, Any],
    outcomes: dict[str, Outcome],
    values: dict[tuple[str, str], Any],
    selection: Selection,
) -> Record:
    query_id = str(row["query_id"])
    any_outcome = outcomes.get(selection.focal) or next(iter(outcomes.values()))
    question, cut = excerpt(str(any_outcome["question"]), QUESTION_CHARACTERS)
    facts = Facts(
        (
            ("Group", f"{any_outcome['group']}" + (f", {any_outcome['language']}" if any_outcome["language"] else "")),
            ("Expected answer", _expected(any_outcome)),
            ("Gold documents", texts([str(d) for d in any_outcome["gold_documents"]])),
            (selection.primary, f"{selection.focal} {score(row['value'])}, best {score(row['best'])}"),
        )
    )
    rows = tuple(
        _answer_row(variant, outcomes[variant], values.get((query_id, variant)))
        for variant in selection.variants
        if variant in outcomes
    )
    columns = (
        Column("variant", "name"),
        Column(selection.primary),
        Column("answer", "text"),
        Column("cited", "name"),
        Column("evidence", "name"),
    )
    return Record(
        f"{number}. {short(query_id, 60)}",
        question,
        facts,
        Table("What each variant made of it", columns, rows),
        _evidence(outcomes, selection),
        cut,
    )


def _expected(outcome: Outcome) -> str:
    answers = [short(str(a), 200) for a in outcome["gold_answers"]]
    if answers:
        return " / ".join(answers)
    if known(outcome["answerable"]) and not outcome["answerable"]:
        return "none: the documents do not answer this question"
    return "not known"


def _answer_row(variant: str, outcome: Outcome, value: Any) -> tuple[Cell, ...]:
    state = str(outcome["state"])
    if state == "answered":
        text, note = excerpt(str(outcome["answer"]), ANSWER_CHARACTERS)
        verdict = {True: "right", False: "wrong"}.get(outcome["correct"], "")
        quotes = [f"quotes “{short(str(q), 160)}”" for q in outcome["quotes"][:2]]
        answer = Cell((text or "(empty)", *(part for part in (note, *quotes, verdict) if part)))
    elif state == "not_generated":
        answer = cell("not generated", tone="muted")
    else:
        reason = short(str(outcome["reason"]).replace("_", " "), 200)
        answer = cell(state, reason, short(str(outcome["answer"]), 200), tone="bad" if state == "failed" else "")
    lost = str(outcome["lost_at"] or "")
    where = cell(STAGES.get(lost, lost) if lost else "–", "over budget" if outcome["over_budget"] else "")
    cited = [short(str(d), 40) for d in outcome["cited"]]
    return cell(variant), cell(score(value)), answer, cell(texts(cited)), where


def _evidence(outcomes: dict[str, Outcome], selection: Selection) -> tuple[Excerpt, ...]:
    """Passages of the focal variant's context, gold ones first; then gold passages only another variant had."""
    focal = outcomes.get(selection.focal)
    gold = {str(d) for o in outcomes.values() for d in o["gold_documents"]}
    own = _passages(focal) if focal is not None else []
    chosen = [(selection.focal, rank, doc, text) for rank, doc, text in own if doc in gold]
    chosen += [(selection.focal, rank, doc, text) for rank, doc, text in own if doc not in gold]
    chosen = chosen[:PASSAGES]
    have = {doc for _, doc, _ in own}
    for variant in selection.variants:
        for rank, doc, text in _passages(outcomes[variant]) if variant in outcomes else []:
            if doc in gold and doc not in have:
                have.add(doc)
                chosen.append((variant, rank, doc, text))
    found = []
    for variant, rank, doc, text in chosen[: PASSAGES + 2]:
        shown, note = excerpt(text)
        tag = ", gold" if doc in gold else ""
        found.append(Excerpt(f"{short(doc, 80)} (passage {rank} in the context of {variant}{tag})", shown, note))
    return tuple(found)


def _passages(outcome: Outcome) -> list[tuple[int, str, str]]:
    pairs = zip(outcome["context_documents"], outcome["context_texts"], strict=False)
    return [(rank, str(doc), str(text)) for rank, (doc, text) in enumerate(pairs, start=1)]
