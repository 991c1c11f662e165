"""What there is to ingest: files below a folder, one file, or the records of a dataset, with what is stated of each.

A document's id is its file's path below the folder that was added (a file's own name when it was added by itself), in
NFC and with ``/``. A file that the corpus knows already keeps the id that it has.
"""

from __future__ import annotations

import os
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rag_lab.contracts import Document, RagLabError
from rag_lab.corpus.catalogue import SourceRow, collision
from rag_lab.corpus.parsing import FORMATS
from rag_lab.corpus.publishing import documents_digest
from rag_lab.corpus.stated import KNOWN, SIDECAR, Rules, Statement, read_rules, rights_of
from rag_lab.store import digest

DATASET = "dataset:"
RECORD_PARSER = "record-1"
READ_AS = "front matter narrows"
"""How statements are put together: documents that were put together otherwise are so no more."""
MISNAMED = ("rights.yaml", "rights.yml", "right.yaml", "right.yml")
"""Names that are nearly that of a ``rights.yaml``: unread, they would leave a folder to the rules above it."""
ENDINGS = frozenset(ending for known in FORMATS.values() for ending in known.endings)


@dataclass(frozen=True)
class Options:
    """What the caller stated of everything below a root. `metadata` may state further fields, such as `valid_until`."""

    tenant: str | None = None
    public: bool | None = None
    groups: tuple[str, ...] | None = None
    policy: str | None = None
    metadata: Mapping[str, Any] | None = None
    recursive: bool = True

    def plain(self) -> dict[str, Any]:
        """For JSON, without what was not stated."""
        given = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: value for name, value in given.items() if value is not None}

    @classmethod
    def read(cls, plain: Mapping[str, Any]) -> Options:
        """From what `plain` gave."""
        groups = plain.get("groups")
        return cls(**{**plain, "groups": None if groups is None else tuple(groups)})

    @property
    def statement(self) -> Statement:
        """What they say of rights. Raises RagLabError for a value that cannot be meant."""
        given = {**(self.metadata or {}), **self.plain()}
        made = Statement("options", {name: given[name] for name in KNOWN if name in given})
        rights_of([made])
        return made


@dataclass(frozen=True, slots=True)
class Found:
    """One source as it was discovered. `path` is None for a record, whose document is then in `record`."""

    document_id: str
    uri: str
    root: str
    name: str
    statements: tuple[Statement, ...]
    path: Path | None = None
    size: int = 0
    modified_ns: int = 0
    record: Document | None = None


@dataclass(frozen=True, slots=True)
class Discovery:
    """Sources by document id, how many files were left out, by reason, and rules that matched no file."""

    found: Mapping[str, Found]
    skipped: Mapping[str, int]
    idle: Sequence[str] = ()


def root_of(given: Path | str) -> str:
    """The address of what is added: an absolute path, or ``dataset:NAME``. Raises RagLabError when it is not there."""
    if str(given).startswith(DATASET):
        return str(given)
    path = Path(given).expanduser().absolute()
    if not path.exists():
        raise RagLabError(f"{given}: no such file or folder; name one, or a dataset as dataset:NAME")
    return str(path)


def discover(roots: Mapping[str, Options], known: Iterable[SourceRow] = (), added: Collection[str] = ()) -> Discovery:
    """Everything below the roots. `known` sources keep their ids; `added` are the roots that are known already.

    Raises RagLabError when two sources come to one id, when a ``rights.yaml`` or an option cannot be meant, and when a
    dataset cannot be loaded. A root that is gone has no sources.
    """
    rows = list(known)
    ids = {row.uri: row.document_id for row in rows}
    taken = {row.document_id: row.uri for row in rows if not row.deleted_by}
    found: dict[str, Found] = {}
    skipped: Counter[str] = Counter()
    idle: list[str] = []
    for root, options in roots.items():
        if root.startswith(DATASET):
            below: Iterator[Found] = _records(root, options)
        else:
            below = _files(root, options, ids, skipped, idle, _outermost(Path(root), {*roots, *added}))
        for one in below:
            other = found[one.document_id].uri if one.document_id in found else taken.get(one.document_id, one.uri)
            if other != one.uri:
                raise RagLabError(collision(one.document_id, other, one.uri))
            found[one.document_id] = one
    return Discovery(dict(sorted(found.items())), dict(skipped), idle)


def _records(root: str, options: Options) -> Iterator[Found]:
    """The documents of a dataset. One that declares rights keeps them; an open one takes those of the options."""
    from rag_lab.datasets import load

    dataset = load(root.removeprefix(DATASET))
    stated = rights_of([options.statement])
    if dataset.rights == "declared" and options.statement.fields:
        raise RagLabError(f"{root}: declares the rights of its documents; leave out {min(options.statement.fields)}")
    given: dict[str, Any] = {}
    if options.statement.fields:
        given = {"tenant": stated.tenant, "acl": stated.acl, "valid_from": stated.valid_from}
        given |= {"valid_until": stated.valid_until}
    for document in dataset.documents:
        uri = f"{root}#{document.document_id}"
        yield Found(document.document_id, uri, root, document.document_id, (), record=replace(document, **given))


def _files(
    root: str, options: Options, ids: Mapping[str, str], skipped: Counter[str], idle: list[str], outermost: Path
) -> Iterator[Found]:
    stated = options.statement
    start = Path(root)
    alone = not start.is_dir()
    rules: dict[Path, list[Rules]] = {}
    matched: set[int] = set()
    for path in _paths(start, options.recursive, skipped):
        folder = path.parent
        ruling = _rules_of(folder, folder if outermost == path else outermost, rules)
        ruled = [made for one in ruling if (made := one.statement(path)) is not None]
        matched.update(id(statement) for one in ruling for statement in one.matching(path))
        name = unicodedata.normalize("NFC", path.name if alone else path.relative_to(start).as_posix())
        try:
            about = path.stat()
        except FileNotFoundError:  # it went while the others were looked at
            continue
        yield Found(
            ids.get(str(path), name),
            str(path),
            root,
            name,
            (*ruled, stated),
            path,
            about.st_size,
            about.st_mtime_ns,
        )
    if outermost == start and not alone:
        every = {id(statement): statement for known in rules.values() for one in known for _, statement in one.rules}
        idle += [statement.place for number, statement in every.items() if number not in matched]


def _outermost(start: Path, roots: Iterable[str]) -> Path:
    """The outermost folder that was added and that this lies in: its rules hold for what is added of it once more."""
    around = [Path(root) for root in roots if Path(root) in start.parents]
    return min(around, key=lambda path: len(path.parts), default=start)


def _rules_of(folder: Path, top: Path, known: dict[Path, list[Rules]]) -> list[Rules]:
    """The ``rights.yaml`` of a folder and of those above it up to `top`, the nearest first; each is read once."""
    if folder not in known:
        above = _rules_of(folder.parent, top, known) if folder != top else []
        own = read_rules(folder)
        known[folder] = [own, *above] if own else above
    return known[folder]


def _paths(start: Path, recursive: bool, skipped: Counter[str]) -> Iterator[Path]:
    """Files of known formats, in order. Links, hidden files and other formats are counted and left out."""
    if start.is_file():
        yield start
        return
    for folder, folders, files in os.walk(start, onerror=_refuse):
        at = Path(folder)
        skipped["links to folders"] += sum((at / name).is_symlink() for name in folders)
        skipped["folders whose name is not UTF-8"] += sum(not _is_utf8(name) for name in folders)
        folders[:] = sorted(name for name in folders if recursive and not name.startswith(".") and _is_utf8(name))
        for name in sorted(files):
            path = at / name
            if name == SIDECAR:
                continue
            if name.lower().strip(" .") in MISNAMED:
                raise RagLabError(f"{path}: states no rights under this name; rename it to {SIDECAR}, or remove it")
            if path.is_symlink():
                skipped["links"] += 1
            elif not _is_utf8(name):
                skipped["files whose name is not UTF-8"] += 1
            elif name.startswith("."):
                skipped["hidden files"] += 1
            elif path.suffix.lower() not in ENDINGS:
                skipped[f"{path.suffix.lower()} files"] += 1
            else:
                yield path


def _refuse(error: OSError) -> None:
    """A folder that cannot be looked into is no empty one: its documents would count as gone."""
    if not isinstance(error, FileNotFoundError):
        raise RagLabError(f"{error.filename}: cannot be read ({error.strerror}); let it be read, or take it away")


def _is_utf8(name: str) -> bool:
    """Whether a name can be written down; one that the system could not decode has surrogates."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def basis_of(one: Found, content: str, parser: str) -> str:
    """A digest of all that decides a document: what it is made from, by which parser, and what is stated of it."""
    if one.record is not None:
        return digest(documents_digest([one.record]), sorted(one.record.metadata.items()), parser)
    stated = [[sorted(s.fields.items(), key=lambda pair: pair[0]), s.zone] for s in one.statements]
    return digest(content, parser, one.name, stated, READ_AS)
