"""The ten worst questions of one variant, with what each variant made of them and the evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from rag_lab.reports.blocks import Block, Cell, Column, Excerpt, Facts, Paragraph, Record, Section, Table, cell, texts
from rag_lab.reports.literal import excerpt, on_one_line, short
from rag_lab.reports.losses import STAGES
from rag_lab.reports.numbers import known, plural, score
from rag_lab.reports.selection import Selection

if TYPE_CHECKING:
    from rag_lab.results import Results

WORST = 10
TOP_PASSAGES = 2
PASSAGE_CHARACTERS = 300
ANSWER_CHARACTERS = 400
QUESTION_CHARACTERS = 1000

Outcome = dict[str, Any]


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
        f"The {plural(len(worst), 'question')} on which {selection.focal} (the last contender of the experiment that "
        f"is not the baseline) loses most against the best contender, by {selection.primary}{selection.where(budget)}, "
        "the primary metric; ties go to the lower score, then to the question's id. Shown are the gold passage, if a "
        f"variant had it in the context of that very question, and at most {TOP_PASSAGES} others, the first in the "
        f"context of {selection.focal}: without line ends, around the expected answer where they hold it."
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
            ("Expected answer", _expected(any_outcome)),
            ("Gold documents", texts([str(d) for d in any_outcome["gold_documents"]])),
            ("Group", f"{any_outcome['group']}" + (f", {any_outcome['language']}" if any_outcome["language"] else "")),
            (selection.primary, f"{selection.focal} {score(row['value'])}, best {score(row['best'])}"),
        )
    )
    generated = any(str(outcome["state"]) != "not_generated" for outcome in outcomes.values())
    rows = tuple(
        _row(variant, outcomes[variant], values.get((query_id, variant)), generated)
        for variant in selection.variants
        if variant in outcomes
    )
    columns = (
        Column("variant", "name"),
        Column(selection.primary),
        *([Column("answer", "text"), Column("cited", "name")] if generated else []),
        Column("evidence", "name" if generated else "text"),
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


def _row(variant: str, outcome: Outcome, value: Any, generated: bool) -> tuple[Cell, ...]:
    cited = [short(str(d), 40) for d in outcome["cited"]]
    where = cell(_place(outcome), "over budget" if outcome["over_budget"] else "")
    answer = (_answer(outcome), cell(texts(cited))) if generated else ()
    return cell(variant), cell(score(value)), *answer, where


def _answer(outcome: Outcome) -> Cell:
    state = str(outcome["state"])
    if state == "answered":
        answer = str(outcome["answer"])
        text, note = excerpt(answer, ANSWER_CHARACTERS)
        verdict = {True: "right", False: "wrong"}.get(outcome["correct"], "")
        quotes = [str(q) for q in outcome["quotes"][:2] if on_one_line(str(q)) not in on_one_line(answer)]
        shown = [f"quotes “{short(q, 160)}”" for q in quotes]
        return Cell((text or "(empty)", *(part for part in (note, *shown) if part)), aside=verdict)
    if state == "not_generated":
        return cell("not generated", tone="muted")
    reason = short(str(outcome["reason"]).replace("_", " "), 200)
    said = short(str(outcome["answer"]), 200)
    return cell(state, said, tone="bad" if state == "failed" else "", aside=f"({reason})" if reason else "")


def _place(outcome: Outcome) -> str:
    """Where the evidence was lost; a variant that withheld its answer did not answer wrong."""
    lost = str(outcome["lost_at"] or "")
    if not lost:
        return "–"
    if lost == "answered" and str(outcome["state"]) == "not_generated":
        return "in context"
    if lost != "generation":
        return STAGES.get(lost, lost)
    if not len(outcome["context_documents"]):
        return "no context"
    ends = {
        "abstained": "in context, abstained",
        "failed": "in context, failed",
        "answered": "in context, answer wrong",
    }
    return ends.get(str(outcome["state"]), STAGES[lost])


def _evidence(outcomes: dict[str, Outcome], selection: Selection) -> tuple[Excerpt, ...]:
    """The gold passage, from the focal variant's context where it is there, and the first others of that context."""
    any_outcome = outcomes.get(selection.focal) or next(iter(outcomes.values()))
    gold = {str(d) for o in outcomes.values() for d in o["gold_documents"]}
    answers = [str(a) for a in any_outcome["gold_answers"]]
    order = (selection.focal, *(v for v in selection.variants if v != selection.focal))
    found = [(v, *passage) for v in order if v in outcomes for passage in _passages(outcomes[v])]
    golden = [passage for passage in found if passage[2] in gold]
    golden.sort(key=lambda passage: not _holds(passage[3], answers))
    chosen = golden[:1]
    top = [passage for passage in found if passage[0] == selection.focal and passage not in chosen]
    return tuple(_excerpt(*passage, passage[2] in gold, answers) for passage in (*chosen, *top[:TOP_PASSAGES]))


def _excerpt(variant: str, rank: int, document: str, text: str, gold: bool, answers: list[str]) -> Excerpt:
    shown, note = excerpt(on_one_line(text), PASSAGE_CHARACTERS, around=answers)
    tag = "gold, " if gold else ""
    return Excerpt(f"{short(document, 80)} ({tag}passage {rank} in the context of {variant})", shown, note)


def _holds(text: str, answers: list[str]) -> bool:
    shown = on_one_line(text).casefold()
    return any(on_one_line(answer).casefold() in shown for answer in answers if answer.strip())


def _passages(outcome: Outcome) -> list[tuple[int, str, str]]:
    pairs = zip(outcome["context_documents"], outcome["context_texts"], strict=False)
    return [(rank, str(doc), str(text)) for rank, (doc, text) in enumerate(pairs, start=1)]
