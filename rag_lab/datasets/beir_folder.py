"""A BEIR folder: ``corpus.jsonl``, ``queries.jsonl``, ``qrels/SPLIT.tsv``, and more where it is known.

A question of a conversation has the turns before it in `history`, texts or objects with a `content`, the oldest first.
``answers.jsonl`` has for a question its accepted `answers`, whether it is `answerable`, the `gold` documents and, where
known, exact evidence (`gold_spans`, or `answer_spans` in the one gold document). ``dataset.json`` may state `zone`,
`evidence`, `remove_identical_ids`, `licence` and `source`; a ``README.md`` with lines ``Licence: ...`` and
``Source: ...`` is read for the last two. ``policies.yaml`` names the readers of the policies that documents refer to.
Other files, such as adversarial texts, are left alone.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from rag_lab.contracts import RagLabError
from rag_lab.datasets.collection import Collection
from rag_lab.datasets.jsonl import read_judgments, read_records
from rag_lab.datasets.options import Options, data_root

KIND = "folder"
CORPUS, QUERIES, ANSWERS, JUDGMENTS, STATED = "corpus.jsonl", "queries.jsonl", "answers.jsonl", "qrels", "dataset.json"
POLICIES = "policies.yaml"

_README_LINE = re.compile(r"^(licence|license|source):[ \t]*(\S.*)$", re.IGNORECASE | re.MULTILINE)


def read(name: str, options: Options, tried: list[str]) -> Collection | None:
    """The folder at that path, or of that name under the data root or in the cache; None when there is none."""
    path = Path(name).expanduser()
    if path.is_dir() and missing_files(path):
        tried.append(f"folder {path} (it has no {' and no '.join(missing_files(path))})")
    elif path.is_dir():
        return read_folder(path, options)
    if path.name != name:
        return None
    for root in (data_root(), options.cache):
        if root is None:
            continue
        folder = root / name
        if not missing_files(folder):
            return read_folder(folder, options)
        tried.append(f"{folder} ({'incomplete' if folder.is_dir() else 'absent'})")
    return None


def names(options: Options) -> dict[str, str]:
    """Datasets under the data root and in the cache, each with its folder."""
    found: dict[str, str] = {}
    for root in (data_root(), options.cache):
        if root is not None and root.is_dir():
            for folder in sorted(root.iterdir()):
                if not folder.name.startswith(".") and not missing_files(folder):
                    found.setdefault(folder.name, str(folder))
    return found


def missing_files(folder: Path) -> list[str]:
    """The files that make a folder a dataset and that it lacks."""
    return [name for name in (CORPUS, QUERIES) if not (folder / name).is_file()]


def read_folder(folder: Path, options: Options, name: str | None = None) -> Collection:
    """Everything the folder holds, unchecked but for its form."""
    if missing := missing_files(folder):
        raise RagLabError(f"{folder}: no {' and no '.join(missing)}; a dataset folder needs {CORPUS} and {QUERIES}")
    title = name or folder.resolve().name
    skipped: list[str] = []
    sink = skipped if options.skip_broken else None
    answers = folder / ANSWERS
    return Collection(
        name=title,
        documents=list(read_records(folder / CORPUS, sink)),
        queries=list(read_records(folder / QUERIES, sink)),
        judgments={path.stem: list(read_judgments(path, sink)) for path in sorted((folder / JUDGMENTS).glob("*.tsv"))},
        answers=list(read_records(answers, sink)) if answers.is_file() else [],
        settings=options.settings(title, _stated(folder), str(folder / STATED)),
        skipped=skipped,
        policies=folder / POLICIES if (folder / POLICIES).is_file() else None,
    )


def write_folder(collection: Collection, folder: Path, stated: dict[str, Any]) -> None:
    """Write a collection as a BEIR folder that `read_folder` reads back; `stated` goes to ``dataset.json``."""
    (folder / JUDGMENTS).mkdir(parents=True)
    tables = ((CORPUS, collection.documents), (QUERIES, collection.queries), (ANSWERS, collection.answers))
    for name, records in tables:
        if records:
            lines = (json.dumps(dict(record.fields), ensure_ascii=False) for record in records)
            (folder / name).write_bytes("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass"))
    for split, judgments in collection.judgments.items():
        rows = ["query-id\tcorpus-id\tscore", *("\t".join(map(str, judgment)) for judgment in judgments)]
        (folder / JUDGMENTS / f"{split}.tsv").write_bytes("".join(f"{row}\n" for row in rows).encode())
    (folder / STATED).write_text(json.dumps(stated, indent=1), encoding="utf-8")


def _stated(folder: Path) -> dict[str, Any]:
    readme = folder / "README.md"
    text = readme.read_text(encoding="utf-8", errors="replace") if readme.is_file() else ""
    lines = {key.lower().replace("license", "licence"): value.strip() for key, value in _README_LINE.findall(text)}
    path = folder / STATED
    if not path.is_file():
        return dict(lines)
    try:
        stated = json.loads(path.read_text(encoding="utf-8-sig"))
    except ValueError as error:
        raise RagLabError(f"{path}: it is not JSON ({error})") from error
    if not isinstance(stated, dict):
        raise RagLabError(f"{path}: it must hold an object")
    return {**lines, **stated}
