"""A dataset of the Hugging Face hub (or a local folder that `datasets` can load), as ``hf:OWNER/NAME?config=C``.

Two layouts are known. *Tables* as BEIR has them on the hub: documents, queries and judgments in three configurations or
repositories. *Rows* as SQuAD and HotpotQA have them: one table whose rows hold question, context and answer; each
distinct context becomes a document, and the rows themselves say which one is relevant. `columns` names what differs
from the usual names::

    columns:
      documents: {path: BeIR/scifact, config: corpus, id: _id, title: title, text: text}
      queries: {config: queries}
      qrels: {path: BeIR/scifact-qrels, query: query-id, document: corpus-id, grade: score}

    columns:
      rows: {split: validation, id: id, question: question, context: context, answers: answers, title: title}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from rag_lab.contracts import RagLabError, Unavailable
from rag_lab.datasets.beir_folder import read_folder, write_folder
from rag_lab.datasets.collection import DEFAULT_SPLIT, Collection
from rag_lab.datasets.hub_rows import from_rows
from rag_lab.datasets.jsonl import Judgment, Record, whole_grade
from rag_lab.datasets.keeping import by_hand, publish, working_folder
from rag_lab.datasets.options import Options
from rag_lab.datasets.records import identifier

KIND = "hub"
PREFIX = "hf:"

# Names with a public source on the hub: the address, and the split that plays the part of "test".
PUBLIC: Mapping[str, tuple[str, str]] = {
    "squad2-dev": ("hf:rajpurkar/squad_v2", "validation"),
    "cmrc2018-dev": ("hf:hfl/cmrc2018", "validation"),
    "hotpotqa-dev": ("hf:hotpotqa/hotpot_qa?config=distractor", "validation"),
}

Table = Iterable[Mapping[str, Any]]


def read(name: str, options: Options, tried: list[str]) -> Collection | None:
    """The hub dataset of that address, or of that public name, which is then kept in the cache; else None."""
    if name.startswith(PREFIX):
        return read_hub(name, options)
    if name not in PUBLIC:
        tried.append(f"the hub (write {PREFIX}OWNER/NAME for a dataset there)")
        return None
    address, split = PUBLIC[name]
    target = options.cache / name
    columns = {"rows": {**options.columns.get("rows", {}), "split": split}}
    with working_folder(target) as work:
        folder = work / name
        collection = read_hub(address, Options(options.cache, columns=columns), by_hand(name, target))
        write_folder(collection, folder, {"source": collection.settings.source})
        publish(folder, target)
    return read_folder(target, options, name)


def names(options: Options) -> dict[str, str]:  # noqa: ARG001 - every source has this signature
    """Public names, each with its address on the hub."""
    return {name: f"{address} (split {split})" for name, (address, split) in PUBLIC.items()}


def read_hub(address: str, options: Options, otherwise: str = "") -> Collection:
    """The dataset at ``hf:PATH?config=C&revision=R``, in whichever layout it has or `columns` states."""
    path, _, query = address.removeprefix(PREFIX).partition("?")
    given = dict(parse_qsl(query))
    if unknown := sorted(set(given) - {"config", "revision"}):
        raise RagLabError(f"{address}: {unknown[0]!r} is not understood; only config and revision may follow the '?'")
    columns = options.columns
    if unknown := sorted(set(columns) - {"documents", "queries", "qrels", "rows"}):
        raise RagLabError(f"columns: {unknown[0]!r} is not understood; it takes documents, queries, qrels and rows")
    for part, names_of in columns.items():
        if not isinstance(names_of, Mapping):
            raise RagLabError(f"columns.{part}: {names_of!r} is not a mapping of roles to column names")
    hub = _Hub(path, given.get("revision"), address, otherwise)
    configs = hub.configs(path)
    is_tables = "documents" in columns or ("rows" not in columns and {"corpus", "queries"} <= set(configs))
    collection = (
        _tables(hub, columns, configs)
        if is_tables
        else _rows(hub, columns.get("rows", {}), given.get("config"), options)
    )
    settings = options.settings(collection.name)
    collection.settings = options.settings(collection.name, {"source": settings.source or address}, address)
    return collection


class _Hub:
    """Loads tables through `datasets`, and says in one line what does not work."""

    def __init__(self, path: str, revision: str | None, address: str, otherwise: str) -> None:
        self.path, self.revision, self.address, self.otherwise = path, revision, address, otherwise

    @property
    def name(self) -> str:
        """The name of the collection: the last part of its path."""
        return Path(self.path).name

    def configs(self, path: str) -> list[str]:
        """Names of the configurations of a repository or folder."""
        import datasets

        return list(self._guarded(lambda: datasets.get_dataset_config_names(path, revision=self.revision)))

    def splits(self, path: str, config: str | None) -> dict[str, Table]:
        """All tables of a configuration, by split."""
        import datasets

        revision = self.revision if path == self.path else None
        return dict(self._guarded(lambda: datasets.load_dataset(path, config, revision=revision)))

    def _guarded(self, call: Any) -> Any:
        import datasets

        try:
            return call()
        except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
            why = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            more = f", {self.otherwise}" if self.otherwise else ""
            raise Unavailable(
                f"{self.address}: it cannot be loaded: {why}; check the name and the network{more}"
            ) from error


def _tables(hub: _Hub, columns: Mapping[str, Any], configs: list[str]) -> Collection:
    stated = {part: dict(columns.get(part) or {}) for part in ("documents", "queries", "qrels")}
    documents = hub.splits(stated["documents"].get("path", hub.path), stated["documents"].get("config", "corpus"))
    queries = hub.splits(stated["queries"].get("path", hub.path), stated["queries"].get("config", "queries"))
    return Collection(
        name=hub.name,
        documents=_records(hub, "documents", documents, stated["documents"], ("title", "text")),
        queries=_records(hub, "queries", queries, stated["queries"], ("text",)),
        judgments=_judgments(hub, stated["qrels"], configs),
    )


def _records(
    hub: _Hub, part: str, tables: Mapping[str, Table], columns: Mapping[str, str], texts: tuple[str, ...]
) -> list[Record]:
    """Rows of a table (of one split, or of all) as records with the usual field names."""
    chosen = tables if "split" not in columns else {columns["split"]: tables.get(columns["split"], [])}
    renamed = {columns.get(name, name): name for name in texts} | {columns.get("id", "_id"): "_id"}
    records = []
    for split, table in chosen.items():
        for line, row in enumerate(table, start=1):
            fields = {renamed.get(key, key): value for key, value in row.items()}
            if "text" not in fields:
                raise RagLabError(f"{hub.address}: {part} has no column 'text'; name it under columns.{part}.text")
            records.append(Record(f"{hub.address}/{part}/{split}", line, fields))
    return records


def _judgments(hub: _Hub, columns: Mapping[str, str], configs: list[str]) -> dict[str, list[Judgment]]:
    """Judgments by split, from a configuration ``qrels`` or, as BEIR has it, a repository ``NAME-qrels``."""
    is_inside = "path" not in columns and "qrels" in configs
    path = columns.get("path", hub.path if is_inside else f"{hub.path}-qrels")
    config = columns.get("config", "qrels" if is_inside else None)
    keys = [columns.get(name, usual) for name, usual in _JUDGMENT_COLUMNS.items()]
    judgments: dict[str, list[Judgment]] = {}
    for split, table in hub.splits(path, config).items():
        judgments[split] = []
        for line, row in enumerate(table, start=1):
            place = f"{path}/{split}:{line}"
            if missing := [key for key in keys if key not in row]:
                raise RagLabError(f"{place}: no column {missing[0]!r}; name it under columns.qrels")
            query_id, document_id, grade = (row[key] for key in keys)
            try:
                judgment = Judgment(identifier(query_id, place), identifier(document_id, place), whole_grade(grade))
            except ValueError as error:
                raise RagLabError(f"{place}: {error}") from error
            judgments[split].append(judgment)
    return judgments


_JUDGMENT_COLUMNS = {"query": "query-id", "document": "corpus-id", "grade": "score"}


def _rows(hub: _Hub, columns: Mapping[str, str], config: str | None, options: Options) -> Collection:
    tables = hub.splits(columns.get("path", hub.path), columns.get("config", config))
    wanted = columns.get("split", options.split)
    if wanted not in tables:
        known = ", ".join(tables)
        raise RagLabError(f"{hub.address}: it has no split {wanted!r}; its splits: {known}")
    split = DEFAULT_SPLIT if "split" in columns else wanted
    return from_rows(hub.name, f"{hub.address}/{wanted}", tables[wanted], columns, split)
