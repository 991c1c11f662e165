"""What the commands print, apart from the table of a run: at most 100 columns, readable without colour."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rag_lab.reports.console import WIDTH, stdout
from rag_lab.reports.literal import short, visible
from rag_lab.reports.numbers import DASH, NBSP, count, interval, p_value, plural, signed

if TYPE_CHECKING:
    import pandas as pd

    from rag_lab.datasets import Dataset, Listing
    from rag_lab.doctor import Check

ALPHA = 0.05


def print_checks(checks: Sequence[Check], console: Console | None = None) -> None:
    """What was found, then a command for each thing that is missing. Commands are never broken into lines."""
    target = console or stdout()
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check in checks:
        word, style = _verdict(check)
        table.add_row(Text(word, style=style), Text(check.name), Text(_plain(check.found)))
    _print(target, table)
    missing = [check for check in checks if not check.ok]
    if missing:
        target.print("\nHow to get what is missing", style="bold")
    for check in missing:
        target.print(Text(f"  {check.name}: {check.fix}"), soft_wrap=True)
    target.print()
    needed = [check.name for check in missing if check.needed]
    if needed:
        _print(target, Text(f"Not ready: {', '.join(needed)}.", style="bold red"))
    elif missing:
        _print(target, Text(f"Ready. Optional and missing: {', '.join(check.name for check in missing)}."))
    else:
        _print(target, Text("Ready. Nothing is missing."))


def print_datasets(listings: Iterable[Listing], console: Console | None = None) -> None:
    """The datasets that a name leads to, with the kind of source and the place."""
    target = console or stdout()
    table = Table(box=None, pad_edge=False)
    table.add_column("dataset", no_wrap=True)
    table.add_column("kind", no_wrap=True)
    table.add_column("place", overflow="fold")
    found = sorted(listings, key=lambda listing: (listing.kind, listing.name))
    for listing in found:
        table.add_row(*(Text(visible(part)) for part in (listing.name, listing.kind, listing.place)))
    _print(target, table)
    _print(target, Text(f"\n{plural(len(found), 'dataset')}; rag-lab datasets NAME says what one holds.", style="dim"))


def print_dataset(dataset: Dataset, console: Console | None = None) -> None:
    """Size, languages, groups and rights of a dataset, what is wrong with it, and what can be measured on it."""
    target = console or stdout()
    spread = Table.grid(padding=(0, 2))
    spread.add_column(no_wrap=True, style="bold")
    spread.add_column(overflow="fold")
    for label, text in _dataset_facts(dataset).items():
        if text:
            spread.add_row(label, Text(_plain(text)))
    _print(target, spread)
    _print_list(target, "Findings", dataset.integrity.warnings() or ["none that changes what a score means"])
    refused = dataset.not_measured()
    _print_list(target, "Can be measured", [", ".join(_measured(refused)) or "nothing"])
    if refused:
        _print_list(target, "Cannot be measured", _by_reason(refused))


def print_comparisons(
    table: pd.DataFrame,
    differs: Sequence[str] = (),
    *,
    second: str = "",
    alpha: float = ALPHA,
    console: Console | None = None,
) -> None:
    """Differences to a baseline with interval, p and Holm p, as `Results.comparisons` holds them.

    differs: what was not equal between two runs; second: the run whose variants are compared with those of the
    baseline run, empty within one run.
    """
    target = console or stdout()
    rows: list[dict[str, Any]] = table.to_dict("records")  # type: ignore[assignment]
    if not rows:
        _print(target, Text("No comparisons: a run with one variant has nothing to compare."))
        return
    if differs:
        _print_list(target, "Not equal between the two runs", differs)
    for baseline, budget in dict.fromkeys((row["baseline"], row["budget"]) for row in rows):
        mine = [row for row in rows if (row["baseline"], row["budget"]) == (baseline, budget)]
        title = f"{second} minus {baseline}, budget {budget}" if second else f"minus {baseline}, budget {budget}"
        target.print()
        _print(target, Text(_plain(title), style="bold"))
        _print(target, _comparison_table(mine, alpha))
    direction = "the second run minus the first" if second else "the variant minus the baseline"
    legend = (
        f"Each difference is {direction}, paired by question: above 0 is better. ▲ better, ▼ worse: the interval "
        f"excludes 0 and Holm p < {alpha:g}. No mark: not distinguishable, which is not the same as equal."
    )
    target.print()
    _print(target, Text(_plain(legend), style="dim"))


def print_written(paths: Mapping[str, str | Path], console: Console | None = None) -> None:
    """Where things were written, by label; empty places are left out and none is broken into lines."""
    target = console or stdout()
    width = max((len(label) for label in paths), default=0)
    target.print()
    for label, place in paths.items():
        if str(place):
            target.print(Text.assemble((f"{label:<{width}}  ", "bold"), str(place)), soft_wrap=True)


def _verdict(check: Check) -> tuple[str, str]:
    if check.ok:
        return "ok", "green"
    return ("MISSING", "bold red") if check.needed else ("optional", "yellow")


def _dataset_facts(dataset: Dataset) -> dict[str, str]:
    found = dataset.integrity
    grades = ", ".join(f"{count(n)} of grade {grade}" for grade, n in sorted(found.grades.items()))
    answers = f"answers are labels ({', '.join(dataset.answer_labels)})" if dataset.answer_labels else ""
    unanswerable = sum(question.answerable is False for question in dataset.questions)
    questions = [count(len(dataset.questions))]
    if unanswerable:
        questions.append(f"{count(unanswerable)} without an answer here")
    if dataset.calibration:
        questions.append(f"{count(len(dataset.calibration))} more for calibration, never scored")
    return {
        "dataset": dataset.name,
        "split": f"{dataset.split} (of {', '.join(dataset.splits)})" if dataset.splits else dataset.split,
        "documents": count(len(dataset.documents)),
        "questions": ", ".join(questions),
        "judgments": f"{count(found.judgments)}" + (f": {grades}" if grades else ""),
        "answers": answers,
        "languages": ", ".join(dataset.languages),
        "groups": ", ".join(f"{name} {count(n)}" for name, n in dataset.groups.items()),
        "rights": {
            "open": "open: everyone may read every document",
            "declared": "declared: who may read a document is stated, and what is not stated admits nobody",
        }[dataset.rights],
        "licence": dataset.licence,
        "source": dataset.source,
        "fingerprint": dataset.fingerprint,
    }


def _measured(refused: Mapping[str, str]) -> list[str]:
    from rag_lab.metrics import DEFAULT

    return [name for name in DEFAULT if name not in refused]


def _by_reason(refused: Mapping[str, str]) -> list[str]:
    """Metrics that share a reason on one line."""
    reasons = dict.fromkeys(refused.values())
    return [f"{', '.join(name for name, why in refused.items() if why == reason)}: {reason}" for reason in reasons]


def _comparison_table(rows: Sequence[Mapping[str, Any]], alpha: float) -> Table:
    from rag_lab.reports.scoring import MARKS
    from rag_lab.reports.selection import decided

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("metric", "variant"):
        table.add_column(name, overflow="fold", max_width=20)
    for name in ("difference", "interval", "p", "Holm p", "n"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("note", overflow="fold")
    previous = None
    for row in rows:
        sense = decided(dict(row), alpha)
        table.add_row(
            Text(row["metric"] if row["metric"] != previous else ""),
            Text(short(str(row["variant"]), 40)),
            Text(f"{MARKS[sense].strip()} {signed(row['delta'])}", style={1: "green", -1: "red"}.get(sense, "")),
            Text(_plain(interval(row["ci_low"], row["ci_high"], sign=True)) or DASH),
            Text(p_value(row["p"], alpha)),
            Text(p_value(row["p_holm"], alpha)),
            Text(count(row["n"])),
            Text(short(str(row["note"] or ""), 80)),
        )
        previous = row["metric"]
    return table


def _print_list(target: Console, title: str, sentences: Iterable[str]) -> None:
    target.print(f"\n{title}", style="bold")
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for sentence in sentences:
        grid.add_row(" -", Text(_plain(sentence)))
    _print(target, grid)


def _print(target: Console, content: Table | Text) -> None:
    target.print(content, width=min(WIDTH, target.width))


def _plain(text: str) -> str:
    """One line, with nothing in it that a terminal would obey."""
    return " ".join(visible(text).replace(NBSP, " ").split())
