"""The section on the corpus that an experiment ran on: which generation, how old, and how fast changes took effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rag_lab.reports.blocks import Block, Cell, Column, Facts, Section, Table, Tone, cell
from rag_lab.reports.numbers import DASH, count, duration, plural

if TYPE_CHECKING:
    from rag_lab.results import Results

KINDS = {
    "searchable": "source changed until searchable",
    "loaded": "added until searchable (first load)",
    "removed": "deletion noticed until published",
    "deleted": "deleted until denied",
    "revoked": "revoked until denied",
    "purged": "denied until purged",
}
PERCENTILES = ("p50", "p95", "max")
VERDICTS: dict[bool | None, tuple[str, Tone]] = {True: ("met", ""), False: ("missed", "bad"), None: ("open", "muted")}


def corpus_section(results: Results) -> tuple[Section, ...]:
    """One section, none for an experiment that ran on the documents of its dataset."""
    found = results.provenance.get("corpus")
    if not found:
        return ()
    state = "active" if found["active"] else "not the active one"
    age = f"{duration(found['index_age_s'])} s when the run ended" if found["index_age_s"] is not None else DASH
    blocks: list[Block] = [
        Facts(
            (
                ("Corpus", f"{found['name']}, generation {found['generation']} ({state})"),
                ("Built with", built_with(found["built_with"])),
                ("Age of the index", age),
                ("Denied", f"{plural(found['denied'], 'document')} of the generation, to everybody"),
                ("Policies", f"version {found['policies']}"),
            )
        )
    ]
    if found["targets"]:
        blocks.append(_targets(found["targets"]))
    if found["delays"]:
        blocks.append(_delays(found["delays"]))
    return (Section("The corpus", "corpus", tuple(blocks)),)


def built_with(settings: Mapping[str, Any]) -> str:
    """The settings that a generation was built with, in words."""
    chunker = dict(settings["chunker"])
    cut = str(chunker.pop("name")) + "".join(f", {key} {value}" for key, value in chunker.items())
    if prefix := settings.get("context_prefix"):
        cut += f" with a sentence by {prefix['generator']}"
    models = f"encoder {settings['encoder']}"
    if settings.get("colbert", "none") != "none":
        models += f"; colbert {settings['colbert']}"
    if settings.get("splade"):
        models += f"; splade {', '.join(settings['splade'])}"
    return f"chunker {cut}; {models}; analyzer {settings['analyzer']}"


def _targets(checks: Sequence[Mapping[str, Any]]) -> Table:
    columns = tuple(Column(name, "text") for name in ("target", "wanted", "measured", ""))
    rows = tuple(
        (*(cell(one[name]) for name in ("name", "wanted", "measured")), _verdict(one["met"])) for one in checks
    )
    return Table("Freshness targets", columns, rows)


def _verdict(met: bool | None) -> Cell:
    word, tone = VERDICTS[met]
    return cell(word, tone=tone)


def _delays(found: Sequence[Mapping[str, Any]]) -> Table:
    columns = (
        Column("from change to effect", "text"),
        Column("n", "count"),
        Column("open", "count"),
        *(Column(name, "count", detail="s") for name in PERCENTILES),
    )
    rows = tuple(
        (
            cell(KINDS[one["kind"]]),
            cell(count(one["n"])),
            cell(count(one["open"])),
            *(cell(duration(one[name])) for name in PERCENTILES),
        )
        for one in found
    )
    return Table("Delays of changes to the corpus", columns, rows)
