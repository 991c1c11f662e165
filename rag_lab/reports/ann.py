"""The report on a study of indexes: what each finds of the true neighbours, and for how much time and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from rag_lab.reports.blocks import Block, Cell, Code, Column, Document, Facts, Figure, Paragraph, Section, Table, cell
from rag_lab.reports.numbers import DASH, NBSP, count, data_size, duration, interval, known, plural, score, signed

if TYPE_CHECKING:
    from rag_lab.ann.results import AnnResults

Row = dict[str, Any]

QUESTION = "What does each index find, and for how much time and memory?"
ENOUGH = 0.95
EXACT = "Flat"
FEW_QUESTIONS = 100
YAML_WIDTH = 44


def build(results: AnnResults) -> Document:
    """The whole report as data."""
    size = max(results.study["sizes"])
    made = max(0, size - results.collection["real"])
    facts = (
        ("Vectors, at most", count(size) + (f", {count(made)} of them made" if made else "")),
        ("Dimensions", count(results.collection["dimension"])),
        ("Questions", count(results.collection["queries"])),
        ("Threads", count(results.study["threads"])),
    )
    return Document(
        title=str(results.study["name"]),
        subtitle=str(results.study["question"]).strip() or QUESTION,
        verdict=verdict(results),
        key_facts=Facts(facts),
        cautions=_cautions(results),
        sections=(
            _collection_section(results),
            _recall_section(results),
            _cost_section(results),
            *_likeness_section(results),
            _reproduce_section(results),
        ),
    )


def rows_of(results: AnnResults, k: int | None = None, size: int | None = None) -> list[Row]:
    """Rows of the searches, in order, of one k and one size where these are given."""
    frame = results.searches
    frame = frame if k is None else frame[frame["k"] == k]
    frame = frame if size is None else frame[frame["size"] == size]
    return [{str(key): value for key, value in row.items()} for row in frame.to_dict("records")]


def largest_k(results: AnnResults) -> int:
    """The k of the verdict and the figures: how many rows a search returns."""
    return int(max(results.study["k"]))


def setting(results: AnnResults, row: Row) -> str:
    """An index with the breadth of a search: ``HNSW32 at efSearch 200``."""
    name = results.collection["breadth_of"][row["index"]]
    return f"{row['index']} at {name}{NBSP}{row['breadth']}" if row["breadth"] else str(row["index"])


def verdict(results: AnnResults) -> tuple[str, ...]:
    """What is fastest and what is smallest among the settings that find enough, at each size from the largest on."""
    sizes = sorted(results.study["sizes"], reverse=True)
    return tuple(sentence for size in sizes for sentence in _verdict_at(results, size, size == sizes[0]))


def _verdict_at(results: AnnResults, size: int, with_memory: bool) -> list[str]:
    k = largest_k(results)
    rows = rows_of(results, k, size)
    exact = next((row for row in rows if row["index"] == EXACT), None)
    others = [row for row in rows if row["index"] != EXACT]
    if not others:
        return []
    enough = [row for row in others if row["recall"] >= ENOUGH]
    where = f"Among {size:,} vectors"
    if not enough:
        most = max(others, key=lambda row: float(row["recall"]))
        return [
            f"{where}, no index finds {100 * ENOUGH:.0f} % of the {k} nearest at the breadths tried; the most is "
            f"{_found(most)} by {setting(results, most)}."
        ]
    fastest = min(enough, key=lambda row: float(row["latency_ms_p50"]))
    said = [
        f"{where}, {setting(results, fastest)} is the fastest that finds {100 * ENOUGH:.0f} % of the {k} nearest: "
        f"{_found(fastest)} in {duration(fastest['latency_ms_p50'])} ms a question{_against(exact, fastest)}."
    ]
    if with_memory and len({row["index"] for row in enough}) > 1:
        smallest = min(enough, key=lambda row: float(row["ram_bytes"]))
        said.append(
            f"Of those that find as much, {smallest['index']} takes the least memory beside the vectors: "
            f"{data_size(smallest['ram_bytes'])}; the vectors themselves take {data_size(smallest['vector_bytes'])}."
        )
    return said


def _found(row: Row) -> str:
    return f"{score(row['recall'])} {interval(row['ci_low'], row['ci_high'])}"


def _against(exact: Row | None, fastest: Row) -> str:
    """How long comparing all vectors takes, where that was measured."""
    if exact is None:
        return ""
    slower = exact["latency_ms_p50"] > fastest["latency_ms_p50"]
    return f", where comparing all takes {'' if slower else 'only '}{duration(exact['latency_ms_p50'])} ms"


def _cautions(results: AnnResults) -> tuple[str, ...]:
    said = [text if text.endswith((".", "。")) else f"{text}." for text in results.warnings]
    questions = results.collection["queries"]
    if questions < FEW_QUESTIONS:
        said.append(f"Only {plural(questions, 'question')}: intervals are wide, and the 95th percentile is rough.")
    left = [
        f"{setting(results, row)} among {row['size']:,} vectors ({count(row['exact_queries'])})"
        for row in rows_of(results, largest_k(results))
        if row["exact_queries"] and row["built"] != EXACT
    ]
    if left:
        said.append(
            "Some searches returned too few rows for some questions, which were then compared with every vector: "
            f"{', '.join(left)}. Their recall and time are partly those of exact search."
        )
    return tuple(said)


def _collection_section(results: AnnResults) -> Section:
    found, study = results.collection, results.study
    snapshot = study["snapshot"]
    facts = [
        ("Dataset", f"{results.dataset['name']}, split {results.dataset['split']}"),
        ("Real vectors", f"{count(found['real'])} passages, cut by {_settings(snapshot['chunker'])}"),
        ("Encoder", str(found["encoder"])),
        ("Questions", f"{count(found['queries'])} (at most {count(study['queries'])}, drawn by seed {study['seed']})"),
        ("Sizes", ", ".join(count(size) for size in study["sizes"])),
        ("Threads", f"{study['threads']} in a search; an index is built on one"),
        ("Processor", str(results.provenance["processor"])),
    ]
    text = (
        f"Every question is searched for its {largest_k(results)} nearest vectors by inner product. Recall@k is the "
        "share of the true k nearest, found by comparing the question with every vector, that are among the first k. "
        "Times are those of a whole search as rag_lab makes it: the index proposes rows, and these are compared "
        f"exactly; they are {_clock(study)}. Nobody asks here, so no rights are applied; only figures come out."
    )
    made = (
        f"Above {count(found['real'])} vectors, the rest are made: each is drawn around a real one, from a normal "
        f"distribution with the covariance of its real neighbours ({found['recipe']}; Vincent and Bengio 2003). "
        "A smaller collection is the beginning of a larger one."
    )
    blocks: list[Block] = [Paragraph(text), Facts(tuple(facts))]
    if max(study["sizes"]) > found["real"]:
        blocks.append(Paragraph(made))
    return Section("What was searched", "collection", tuple(blocks))


def _clock(study: dict[str, Any]) -> str:
    return "processor time of the one thread" if study["threads"] == 1 else "by the clock on the wall"


def _settings(chunker: dict[str, Any]) -> str:
    return ", ".join([str(chunker["name"]), *(f"{key} {value}" for key, value in chunker.items() if key != "name")])


def _recall_section(results: AnnResults) -> Section:
    k = largest_k(results)
    figure = Figure(
        "recall",
        f"Recall@{k} with 95 % intervals over questions against the median time of a question by itself; a point for "
        "each breadth, a panel for each size. Up and to the left is better.",
        "A panel for each number of vectors, a line for each index; the tables give the same numbers.",
    )
    tables = [_recall_table(results, size) for size in results.study["sizes"]]
    return Section("Recall against time", "recall", (figure, *tables))


def _recall_table(results: AnnResults, size: int) -> Table:
    ks = results.study["k"]
    recalls = {(row["index"], row["breadth"], row["k"]): row for row in rows_of(results, size=size)}
    columns = (
        Column("index", "name"),
        Column("breadth", "count", "efSearch, nprobe"),
        *(Column(f"recall@{k}") for k in ks),
        Column("median", "count", "ms"),
        Column("95th percentile", "count", "ms"),
        Column("in one batch", "count", "questions/s"),
    )
    lines = []
    for row in rows_of(results, largest_k(results), size):
        found = [recalls[row["index"], row["breadth"], k] for k in ks]
        lines.append(
            (
                _index_cell(row),
                cell(count(row["breadth"]) if row["breadth"] else DASH),
                *(cell(score(one["recall"]), interval(one["ci_low"], one["ci_high"])) for one in found),
                cell(duration(row["latency_ms_p50"])),
                cell(duration(row["latency_ms_p95"])),
                cell(count(row["queries_per_s"])),
            )
        )
    breaks = tuple(i for i in range(1, len(lines)) if lines[i][0].lines[0] != lines[i - 1][0].lines[0])
    return Table(f"{size:,} vectors", columns, tuple(lines), _substituted(results, size), breaks)


def _index_cell(row: Row) -> Cell:
    return cell(str(row["index"]), f"built as {row['built']}" if row["built"] != row["index"] else "")


def _substituted(results: AnnResults, size: int) -> str:
    """Why other indexes were built than were asked for."""
    notes = dict.fromkeys(str(row["note"]) for row in rows_of(results, size=size) if row["note"])
    return "; ".join(notes) + "." if notes else ""


def _cost_section(results: AnnResults) -> Section:
    figure = Figure(
        "costs",
        "Memory of each index beside the vectors, and processor time to build it on one thread, at each size; axes are "
        "logarithmic. The first bars are the vectors themselves, which rag_lab keeps beside every index.",
        "Bars for each index and size; the table gives the same numbers.",
    )
    columns = (
        Column("index", "name"),
        Column("size", "count"),
        Column("on disk", "count"),
        Column("in memory", "count"),
        Column("its vectors", "count"),
        Column("built in", "count", "s"),
    )
    rows = [row for row in rows_of(results, largest_k(results)) if row["index"] != EXACT]
    first = list({(row["index"], row["size"]): row for row in rows}.values())
    first.sort(key=lambda row: (list(results.study["indexes"]).index(row["index"]), row["size"]))
    lines = tuple(
        (
            _index_cell(row),
            cell(count(row["size"])),
            *(cell(data_size(row[name])) for name in ("disk_bytes", "ram_bytes", "vector_bytes")),
            cell(duration(row["build_s"])),
        )
        for row in first
    )
    breaks = tuple(i for i in range(1, len(first)) if first[i]["index"] != first[i - 1]["index"])
    note = (
        "In memory: by how much a fresh process grows that reads the index. HNSW holds a copy of what it searches; IVF "
        "and PQ hold codes. Exact search (Flat) needs the vectors alone."
    )
    return Section("Memory and build time", "costs", (figure, Table("Indexes", columns, lines, note, breaks)))


def _likeness_section(results: AnnResults) -> tuple[Section, ...]:
    """Real against made vectors; none where none were made or could be compared."""
    frame = results.likeness
    if frame.empty:
        return ()
    found = {(str(row["vectors"]), str(row["measure"])): row for row in frame.to_dict("records")}
    measures = list(dict.fromkeys(frame["measure"].astype(str)))
    size = int(frame["size"].iloc[0])
    share = 1 - results.collection["real"] / max(results.study["sizes"])
    lines = []
    for name in measures:
        real, made = found["real", name], found["made", name]
        cells = (cell(score(one["value"]), interval(one["ci_low"], one["ci_high"])) for one in (real, made))
        lines.append((cell(name), *cells, cell(signed(made["value"] - real["value"])), cell(count(real["n"]))))
    text = f"{size:,} real vectors against {size:,} of which {share:.1%} are made, as at the largest size."
    if recalls := [name for name in measures if name.startswith("recall@")]:
        widest = max(recalls, key=lambda name: _gap(found, name))
        text += (
            " The recall of an index among made vectors differs from that among real ones by "
            f"{score(_gap(found, widest))} at most ({widest}). Whether it does so at larger sizes too cannot be "
            "measured without as many real vectors."
        )
    columns = (Column("measure", "name"), Column("real"), Column("made"), Column("made − real"), Column("n", "count"))
    note = (
        "Local dimension: maximum likelihood over 100 neighbours (Levina and Bickel 2004). Distances are Euclidean, "
        "means over points. Intervals of 95 %."
    )
    table = Table(
        "Real and made vectors", columns, tuple(lines), note, tuple(measures.index(name) for name in recalls[:1])
    )
    return (Section("Are made vectors like real ones?", "likeness", (Paragraph(text), table)),)


def _gap(found: dict[tuple[str, str], Any], name: str) -> float:
    """How far a measure of made vectors is from that of real ones."""
    return abs(float(found["made", name]["value"]) - float(found["real", name]["value"]))


def _reproduce_section(results: AnnResults) -> Section:
    known_facts = results.provenance
    facts = [
        ("Code version", known_facts["code_version"]),
        ("Python", known_facts["python"]),
        ("Platform", known_facts["platform"]),
        ("Started", known_facts["started"]),
        ("Seconds", known_facts["seconds"]),
        ("Snapshot", results.collection["snapshot"]),
        ("Dataset", f"{results.dataset['name']}, fingerprint {results.dataset['fingerprint']}"),
        ("Packages", ", ".join(f"{name} {version}" for name, version in known_facts["packages"].items())),
    ]
    text = yaml.safe_dump(results.study, sort_keys=False, allow_unicode=True, width=YAML_WIDTH)
    blocks: tuple[Block, ...] = (
        Paragraph("The command:"),
        Code(str(known_facts["command"])),
        Facts(tuple((label, str(value)) for label, value in facts if known(value) or str(value))),
        Paragraph("The study in full:"),
        Code(text),
        Paragraph("Beside this report lie results.json, tables/ with every row (Parquet), and figures/.", "note"),
    )
    return Section("To reproduce it", "reproduce", blocks)
