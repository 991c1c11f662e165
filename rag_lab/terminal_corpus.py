"""What the corpus commands print: at most 100 columns, readable without colour."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rag_lab.reports.console import WIDTH, stdout
from rag_lab.reports.corpus import built_with
from rag_lab.reports.literal import excerpt, on_one_line, short
from rag_lab.reports.numbers import count, duration, interval, p_value, plural, score, share, signed

if TYPE_CHECKING:
    from rag_lab.contracts import Chunk
    from rag_lab.corpus.catalogue import GenerationRow
    from rag_lab.corpus.migration import Migration
    from rag_lab.corpus.publisher import Report
    from rag_lab.corpus.purge import Proof, Purge
    from rag_lab.corpus.status import Drift, Status
    from rag_lab.metrics.freshness import Check

NAMED = 5
"""How many document ids of a list are named."""
SHOWN = 400
"""How many characters of a chunk are shown."""
TAKEN = {
    "kept": "parts of kept originals written anew",
    "encoding": "remembered encodings",
    "stages": "outputs of stages",
    "prefixes": "generated prefixes",
}
"""What kinds of entry of the store are called, where their own name says too little."""
MARKS = {True: ("met", "green"), False: ("missed", "bold red"), None: ("open", "")}


def print_report(report: Report, console: Console | None = None) -> None:
    """What a publication came to; every source that failed, with its reason."""
    target = console or stdout()
    if report.generation is None:
        head = f"Nothing to publish: {plural(report.unchanged, 'document')} unchanged."
        if not (report.unchanged or report.failed or report.asleep):
            head = "Nothing to publish: no document was found."
    else:
        head = f"Generation {report.generation} is active after {duration(report.seconds)} s."
    _line(target, head, "bold")
    facts = {
        "added": _names(report.added),
        "updated": _names(report.updated),
        "removed": _names(report.removed),
        "unchanged": count(report.unchanged) if report.unchanged and report.generation else "",
        "parsed": f"{count(report.parsed)}, known before {count(report.parse_hits)}" if report.parsed else "",
        "encoded": f"{count(report.encoded)}, known before {count(report.embedding_hits)}" if report.encoded else "",
        "still denied": _names(report.asleep),
        "left out": ", ".join(f"{name} {count(n)}" for name, n in report.skipped.items()),
    }
    _facts(target, facts)
    if report.admits_nobody:
        why = "no tenant or no readers are stated, so nobody reads"
        _line(target, f"{why} {_names(report.admits_nobody, 'document')}", "red")
    _reasons(target, "Only in part", report.partial)
    _reasons(target, "Failed; what was published of them stays", report.failed)
    for warning in report.warnings:
        _line(target, f"note: {warning}")


def print_status(status: Status, console: Console | None = None) -> None:
    """A corpus at a glance: size, ages, what failed, what waits, what nothing names, delays and targets."""
    target = console or stdout()
    _facts(
        target,
        {
            "corpus": status.corpus,
            "generation": f"{status.generation}, snapshot {status.snapshot}" if status.generation else "none yet",
            "size": f"{plural(status.documents, 'document')}, {plural(status.chunks, 'chunk')}",
            "built with": built_with(status.settings),
            "age of the index": _age(status.index_age_s),
            "sources": ", ".join(f"{state} {count(n)}" for state, n in status.sources.items()),
            "parsed": _some(status.parse_success, "of the sources"),
            "in a chunk": _some(status.coverage.span, "of the characters"),
            "with a vector": _some(status.coverage.embedding, "of the chunks"),
            "duplicates": _duplicates(status),
            "caches": ", ".join(
                f"{c.cache} {count(c.hits)} of {count(c.hits + c.misses)} known" for c in status.caches
            ),
            "read now": ", ".join(f"generation {number} by {count(n)}" for number, n in status.pins.items()),
        },
    )
    _drift(target, status.drift)
    _reasons(target, "Failed sources", status.failed)
    _reasons(target, "Sources read in part", status.partial)
    if status.backlog:
        waiting = {w.document_id: f"{w.why}, for {_age(w.age_s)}" for w in status.backlog}
        _reasons(target, "Not read any more and not purged", waiting)
    _reasons(target, "Orphans", {kind: _names(names) for kind, names in status.orphans.items()})
    _delays(target, status.delays)
    _checks(target, status.checks)


def print_chunks(
    chunks: Sequence[Chunk], document_id: str, states: Sequence[str], note: str, console: Console | None = None
) -> None:
    """The chunks of a document that a reader may read, `states` beside each, and a note where there are none."""
    target = console or stdout()
    for chunk, state in zip(chunks, states, strict=True):
        start, end = chunk.source_span
        page = f", page {chunk.page}" if chunk.page else ""
        _line(target, f"{chunk.chunk_id}  characters {start} to {end}{page}  {state}", "bold")
        acls = " and ".join(_readers(acl.public, acl.groups, acl.policy) for acl in chunk.acls)
        valid = [
            f"{word} {at.isoformat()}" for word, at in (("from", chunk.valid_from), ("until", chunk.valid_until)) if at
        ]
        facts = {
            "headings": " > ".join(chunk.section_path),
            "rights": "; ".join([f"tenant {chunk.tenant}", acls, *valid]),
            "embedded": excerpt(chunk.embedded_text, SHOWN)[0],
        }
        if chunk.shown_span != chunk.source_span:
            facts["shown"] = f"characters {chunk.shown_span[0]} to {chunk.shown_span[1]}"
        _facts(target, facts, indent=2)
    _line(target, note or f"{plural(len(chunks), 'chunk')} of {document_id}")


def print_generations(rows: Iterable[GenerationRow], console: Console | None = None) -> None:
    """The generations of a corpus, the newest last; of one that is gone there is no snapshot any more."""
    target = console or stdout()
    table = _table("generation", "state", "documents", "chunks", "activated (UTC)", "encoder", "note", whole=5)
    for row in rows:
        at = (row.activated_at or "")[:16].replace("T", " ")
        state = row.state if row.snapshot or row.state in ("building", "failed") else "gone"
        encoder = str(row.settings.get("encoder", ""))
        _row(table, row.number, state, count(row.documents), count(row.chunks), at, encoder, row.note)
    _print(target, table)


def print_corpora(found: Mapping[str, GenerationRow | None], console: Console | None = None) -> None:
    """The corpora of a store."""
    target = console or stdout()
    table = _table("corpus", "generation", "documents", "chunks", "activated (UTC)")
    for name, row in found.items():
        if row is None:
            _row(table, name, "none yet", "", "", "")
        else:
            at = (row.activated_at or "")[:16].replace("T", " ")
            _row(table, name, row.number, count(row.documents), count(row.chunks), at)
    _print(target, table)
    _line(target, f"{len(found)} {'corpus' if len(found) == 1 else 'corpora'}", "dim")


def print_migration(done: Migration, console: Console | None = None) -> None:
    """Both models on the same questions, and what was decided."""
    target = console or stdout()
    before, after = done.encoder
    _line(target, f"Dense retrieval on {plural(done.questions, 'question')} of {done.dataset}", "bold")
    table = _table("metric", before, after, "difference", "interval", "Holm p", "n")
    for row in done.rows:
        change = row.difference
        _row(
            table,
            row.metric,
            score(row.before.value),
            score(row.after.value),
            signed(change.delta),
            interval(change.low, change.high, sign=True),
            p_value(row.p_holm),
            count(change.n),
        )
    _print(target, table)
    if done.unread:
        _line(target, f"note: left out {plural(done.unread, 'question')} whose reader may read nothing")
    if done.out_of_reach:
        what = "whose relevant documents are not in the corpus, or not for their reader"
        _line(target, f"note: left out {plural(done.out_of_reach, 'question')} {what}")
    if done.switched:
        _line(target, f"Switched to {after}: generation {done.generation} is active. {_rule(done)}.")
    else:
        command = f"rag-lab corpus activate {done.corpus} {done.generation}"
        _line(target, f"Not switched. {_rule(done)}. {command} switches to {after}.")


def _rule(done: Migration) -> str:
    """What the intervals say about being worse."""
    from rag_lab.corpus.migration import ENOUGH, MARGIN

    if done.not_worse:
        return f"Not worse: every interval (95 %) lies above {signed(-MARGIN)}"
    if done.enough:
        return f"Not shown to be not worse: an interval (95 %) reaches {signed(-MARGIN)} or lower"
    return f"Nothing can be concluded about being worse: that takes {ENOUGH} questions or more for every metric"


def _duplicates(status: Status) -> str:
    documents, chunks = status.duplicate_documents, status.duplicate_chunks
    return f"{share(documents)} of the documents, {share(chunks)} of the chunks" if status.documents else ""


def _drift(target: Console, drift: Drift | None) -> None:
    if drift is None:
        return
    found = {"changed": drift.changed, "new": drift.new, "missing": drift.missing}
    if drift:
        since = f", the first {_age(drift.oldest_s)} ago" if drift.oldest_s is not None else ""
        title = f"Sources are not as published{since}; rag-lab corpus update brings them out"
        _reasons(target, title, {kind: _names(names) for kind, names in found.items() if names})
    if drift.unseen:
        _line(target, f"note: not compared with its source: {', '.join(drift.unseen)}", "dim")


def _delays(target: Console, rows: Sequence[Mapping[str, object]]) -> None:
    if not rows:
        return
    _line(target, "\nDelays in seconds", "bold")
    table = _table("from change to", "n", "open", "p50", "p95", "max")
    for row in rows:
        _row(
            table,
            row["kind"],
            count(row["n"]),
            count(row["open"]),
            *(duration(row[name]) for name in ("p50", "p95", "max")),
        )
    _print(target, table)


def _checks(target: Console, checks: Sequence[Check]) -> None:
    if not checks:
        return
    _line(target, "\nTargets", "bold")
    table = _table("target", "wanted", "measured", "")
    for one in checks:
        word, style = MARKS[one.met]
        table.add_row(Text(one.name), Text(one.wanted), Text(one.measured), Text(word, style=style))
    _print(target, table)


def _age(seconds: float | None) -> str:
    """Seconds as people say them."""
    if seconds is None:
        return "nothing is published"
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= 2 * size:
            return plural(int(seconds // size), unit)
    return f"{duration(seconds)} s"


def _some(value: float | None, of: str) -> str:
    return "" if value is None else f"{share(value)} {of}"


def _readers(public: bool, groups: Sequence[str], policy: str) -> str:
    if policy:
        return f"policy {policy}"
    if public:
        return "public"
    return f"groups {', '.join(groups)}" if groups else "nobody"


def _names(names: Sequence[str], what: str = "") -> str:
    """How many, and the first of them; "" for none."""
    if not names:
        return ""
    listed = ", ".join(short(name, 60) for name in names[:NAMED])
    more = len(names) - NAMED
    head = plural(len(names), what) if what else count(len(names))
    return f"{head}: {listed}" + (f" and {count(more)} more" if more > 0 else "")


def _reasons(target: Console, title: str, reasons: Mapping[str, str]) -> None:
    if not reasons:
        return
    _line(target, f"\n{title}", "bold")
    grid = Table.grid(padding=(0, 2))
    grid.add_column(overflow="fold", max_width=40)
    grid.add_column(overflow="fold")
    for name, reason in reasons.items():
        shown = on_one_line(name)
        grid.add_row(Text(f"  {shown}"), Text(on_one_line(reason).removeprefix(f"{shown}: ")))
    _print(target, grid)


def _facts(target: Console, facts: Mapping[str, str], indent: int = 0) -> None:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for label, text in facts.items():
        if text:
            grid.add_row(Text(" " * indent + label, style="bold" if not indent else ""), Text(on_one_line(text)))
    _print(target, grid)


def _table(*columns: str, whole: int = 0) -> Table:
    """A table without lines; cells of its first `whole` columns stay on one line."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for number, name in enumerate(columns):
        table.add_column(on_one_line(name), overflow="fold", no_wrap=number < whole)
    return table


def _row(table: Table, *cells: object) -> None:
    table.add_row(*(Text(on_one_line(str(cell))) for cell in cells))


def _line(target: Console, text: str, style: str = "") -> None:
    lead = "\n" if text.startswith("\n") else ""
    _print(target, Text(lead + on_one_line(text), style=style))


def _print(target: Console, content: Table | Text) -> None:
    target.print(content, width=min(WIDTH, target.width))


def print_purge(done: Purge, console: Console | None = None) -> None:
    """What a purge removed."""
    target = console or stdout()
    if not done.documents:
        _line(target, "Nothing to purge: no denied document has bytes on the disk.", "bold")
        return
    _line(target, f"Purged {_names(done.documents, 'document')}", "bold")
    facts = {
        "active now": f"generation {done.generation}, without them" if done.generation else "",
        "taken away": ", ".join(f"{TAKEN.get(kind, kind)} {count(n)}" for kind, n in done.removed.items()),
    }
    _facts(target, facts)


def print_proof(proof: Proof, console: Console | None = None) -> None:
    """What a search for purged documents found: the verdict first, then every file."""
    target = console or stdout()
    verdict = "Nothing of them is left." if proof.clean else "NOT everything is gone."
    _line(target, verdict, "bold green" if proof.clean else "bold red")
    searched = f"{plural(proof.files, 'file')}, {proof.searched / 1e6:,.1f} MB, in {duration(proof.seconds)} s"
    facts = {
        "searched": searched,
        "looked for": f"{plural(proof.marks, 'piece')} of {plural(len(proof.documents), 'document')}",
        "not looked for": _names(proof.unmarked),
        "indexes with them": count(proof.postings) if proof.postings else "",
    }
    _facts(target, facts)
    if proof.unmarked:
        _line(target, "note: what is not looked for is too short, or all of it stands in documents that stay")
    _reasons(target, "Still there", {str(finding.place): plural(finding.pieces, "piece") for finding in proof.left})
    _reasons(target, "Cannot be read", {str(path): "look at it by hand" for path in proof.unreadable})
    kept = {str(finding.place): plural(finding.pieces, "piece") for finding in proof.elsewhere}
    _reasons(target, "In other corpora, which have a copy of their own", kept)
    written = {str(finding.place): plural(finding.pieces, "piece") for finding in proof.exported}
    _reasons(target, "In what runs wrote outside of the store; delete these files by hand", written)
