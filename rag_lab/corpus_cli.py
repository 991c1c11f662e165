"""The command line of corpora: ``rag-lab corpus add | update | delete | revoke | lift | purge | status | ...``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag_lab.contracts import RagLabError

if TYPE_CHECKING:
    from rag_lab.contracts import Principal
    from rag_lab.corpus.corpus import Corpus
    from rag_lab.corpus.publisher import Report

app = typer.Typer(
    help="Keep documents as corpora that change: publish, update, deny, restore.",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(help="Name of the corpus.")]
Ids = Annotated[list[str], typer.Argument(help="Ids of documents, as 'corpus add' and 'status' name them.")]
Wait = Annotated[float, typer.Option("--wait", min=0, help="Seconds to wait for another publisher.")]
WAIT_S = 600.0


@app.command()
def add(
    name: Name,
    sources: Annotated[list[str], typer.Argument(help="Files, folders, or datasets as dataset:NAME.")],
    tenant: Annotated[str | None, typer.Option(help="Tenant of documents that state none.")] = None,
    public: Annotated[
        bool, typer.Option("--public", help="Everybody in the tenant reads those that name nobody.")
    ] = False,
    group: Annotated[
        list[str] | None, typer.Option(help="This group reads those that name nobody; may be repeated.")
    ] = None,
    policy: Annotated[str | None, typer.Option(help="The readers are those of this policy.")] = None,
    metadata: Annotated[
        list[str] | None, typer.Option(help="FIELD=VALUE for every document, such as valid_until.")
    ] = None,
    recursive: Annotated[bool, typer.Option(help="Look into the folders of a folder.")] = True,
    settings: Annotated[Path | None, typer.Option(help="YAML with the settings of a new corpus.")] = None,
    wait: Wait = WAIT_S,
) -> None:
    """Add documents, and create the corpus if it is new. What is unchanged costs nothing.

    Rights come from rights.yaml in a file's folder, then from the options here, and its front matter narrows them; a
    document of which nothing is stated admits nobody. Exit status 1 when a source failed.
    """
    with _opened(name, create=True, settings=settings) as corpus:
        done = corpus.add(
            sources,
            tenant=tenant,
            public=True if public else None,
            groups=group or None,
            policy=policy,
            metadata=_pairs(metadata),
            recursive=recursive,
            progress=_shown(),
            wait_s=wait,
        )
    _report(done)


@app.command()
def update(name: Name, wait: Wait = WAIT_S) -> None:
    """Publish what is new, changed or gone in everything that was added. Exit status 1 when a source failed."""
    with _opened(name) as corpus:
        _report(corpus.update(progress=_shown(), wait_s=wait))


@app.command()
def delete(
    name: Name,
    documents: Ids,
    reason: Annotated[str, typer.Option(help="Why, for the record.")] = "deleted",
    wait: Wait = WAIT_S,
) -> None:
    """Deny documents at once and publish without them. They come back only when added with other content."""
    with _opened(name) as corpus:
        _report(corpus.delete(documents, reason, progress=_shown(), wait_s=wait))


@app.command()
def revoke(
    name: Name,
    documents: Ids,
    reason: Annotated[str, typer.Option(help="Why, for the record.")],
) -> None:
    """Deny documents to everybody, in every generation, from the moment that this command ends until they are lifted.

    Exit status 1 when the corpus knows none of an id; it is denied all the same.
    """
    with _opened(name) as corpus:
        done = corpus.revoke(documents, reason)
    typer.echo(f"denied: {', '.join(documents)} (epoch {done.epoch})")
    if done.unknown:
        typer.echo(f"note: corpus {name} has no document {', '.join(done.unknown)}; check the ids", err=True)
        raise typer.Exit(1)


@app.command()
def lift(name: Name, documents: Ids) -> None:
    """End the denials of documents."""
    with _opened(name) as corpus:
        epoch = corpus.lift(documents)
    typer.echo(f"lifted: {', '.join(documents)} (epoch {epoch})")


@app.command()
def purge(
    name: Name,
    check: Annotated[bool, typer.Option("--check", help="Remove nothing, search once more.")] = False,
    wait: Wait = WAIT_S,
) -> None:
    """Remove every byte of denied documents from the store, and search the disk for what is left of them.

    Exit status 1 when something is left.
    """
    from rag_lab.terminal_corpus import print_proof, print_purge

    with _opened(name) as corpus:
        if check:
            proof = corpus.prove(progress=_shown())
        else:
            done = corpus.purge(progress=_shown(), wait_s=wait)
            print_purge(done)
            if done.proof is None:
                return
            proof = done.proof
    print_proof(proof)
    raise typer.Exit(0 if proof.clean else 1)


@app.command()
def expire(
    name: Name,
    remove: Annotated[bool, typer.Option("--remove", help="Publish without them.")] = False,
    time: Annotated[str | None, typer.Option(help="Instant instead of now, such as 2026-03-31.")] = None,
    wait: Wait = WAIT_S,
) -> None:
    """List documents whose validity has ended; with --remove, publish without them."""
    with _opened(name) as corpus:
        ended, report = corpus.expire(_instant(time), remove=remove, progress=_shown(), wait_s=wait)
    for document_id in ended:
        typer.echo(document_id)
    typer.echo(f"{len(ended)} expired", err=True)
    if report is not None:
        _report(report)


@app.command()
def status(
    name: Name,
    drift: Annotated[bool, typer.Option(help="Compare with the sources.")] = True,
) -> None:
    """Show ages, failures, orphans, what waits for a purge, coverage, drift, delays and targets.

    Exit status 1 when a freshness target is missed.
    """
    from rag_lab.terminal_corpus import print_status

    with _opened(name) as corpus:
        found = corpus.status(drift=drift)
    print_status(found)
    raise typer.Exit(1 if any(check.met is False for check in found.checks) else 0)


@app.command()
def chunks(
    name: Name,
    document: Annotated[str, typer.Argument(help="Id of the document.")],
    tenant: Annotated[str | None, typer.Option(help="Tenant of the reader.")] = None,
    group: Annotated[list[str] | None, typer.Option(help="Group of the reader; may be repeated.")] = None,
    time: Annotated[str | None, typer.Option(help="Instant of the request instead of now, such as 2026-03-31.")] = None,
    generation: Annotated[int | None, typer.Option(help="Another generation than the active one.")] = None,
) -> None:
    """Print the chunks of a document that a reader may read. Without --tenant there is no reader, so there are none."""
    from rag_lab.contracts import Principal
    from rag_lab.terminal_corpus import print_chunks

    reader = Principal(tenant, tuple(group or ())) if tenant else None
    with _opened(name) as corpus:
        snapshot = corpus.snapshot(generation)
        rows = corpus.chunks(document, reader, _instant(time), generation)
        active = corpus.snapshot().documents.get(document)
        state = "living" if snapshot.documents.get(document) == active else "dead: replaced or removed since"
        with snapshot.reading() as denied:
            found = [] if document in denied else [snapshot.chunk(row) for row in rows]
        note = "" if found else _why_none(corpus, document, reader, time, generation)
    print_chunks(found, document, [state] * len(found), note)


def _why_none(corpus: Corpus, document: str, reader: Principal | None, time: str | None, generation: int | None) -> str:
    """Why a reader gets nothing: a denial is told only to whom the document would else be shown."""
    if reader is None:
        return "Nothing is shown without a reader: name one with --tenant and --group."
    if corpus.is_withheld(document, reader, _instant(time), generation):
        return f"{document} is denied: nobody reads it in any generation until it is lifted."
    return f"Nothing of {document} is there that this reader may read."


@app.command()
def activate(
    name: Name,
    generation: Annotated[int | None, typer.Argument(help="Number; without one the generations are listed.")] = None,
    wait: Wait = WAIT_S,
) -> None:
    """List the generations, or make one the active one: a migrated one, or an earlier one again.

    What is denied stays denied in all of them.
    """
    from rag_lab.terminal_corpus import print_generations

    with _opened(name) as corpus:
        if generation is None:
            print_generations(corpus.catalogue.generations())
            return
        made = corpus.activate(generation, wait_s=wait)
    typer.echo(f"generation {made.number} is active" + (f" ({made.note})" if made.note else ""))


@app.command()
def migrate(
    name: Name,
    encoder: Annotated[str, typer.Argument(help="The other embedding model, by name.")],
    questions: Annotated[str, typer.Argument(help="Dataset whose questions and judgments both are compared on.")],
    split: Annotated[str, typer.Option(help="Whose questions.")] = "test",
    limit: Annotated[int | None, typer.Option(min=1, help="Draw this many questions.")] = None,
    switch: Annotated[bool, typer.Option("--switch", help="Switch, whatever the comparison says.")] = False,
    if_not_worse: Annotated[
        bool,
        typer.Option(
            "--if-not-worse",
            help="Switch when on 100 questions or more the 95 % interval of every metric's difference is above -0.01.",
        ),
    ] = False,
    wait: Wait = WAIT_S,
) -> None:
    """Build the corpus with another embedding model beside the present one, compare both, and switch if told to."""
    from rag_lab.terminal_corpus import print_migration

    with _opened(name) as corpus:
        done = corpus.migrate(
            encoder,
            questions,
            split=split,
            limit=limit,
            switch=switch,
            if_not_worse=if_not_worse,
            progress=_shown(),
            wait_s=wait,
        )
    print_migration(done)


@app.command()
def policies(
    name: Name,
    file: Annotated[Path, typer.Argument(help="YAML or JSON with the policies; takes the place of the book before.")],
) -> None:
    """Set who the readers of each policy are. It holds from the next request on; nothing is published."""
    with _opened(name) as corpus:
        book = corpus.put_policies(file)
    typer.echo(f"{len(book.policies)} versions of policies (version {book.version})")


@app.command("list")
def list_() -> None:
    """List the corpora."""
    from rag_lab.corpus.corpus import Corpus, corpora
    from rag_lab.store import Store
    from rag_lab.terminal_corpus import print_corpora

    store, found = Store.default(), {}
    for name in corpora(store):
        with Corpus.open(store, name) as corpus:
            found[name] = corpus.catalogue.active
    print_corpora(found)


@contextmanager
def _opened(name: str, create: bool = False, settings: Path | None = None) -> Iterator[Corpus]:
    from rag_lab.corpus.corpus import Corpus, corpora
    from rag_lab.store import Store

    store = Store.default()
    known = name in corpora(store)
    if settings is not None and known:
        raise RagLabError(
            f"--settings {settings}: corpus {name} is there already, and its settings are chosen when it is new"
        )
    new = create and not known
    with Corpus.create(store, name, **_settings(settings)) if new else Corpus.open(store, name) as corpus:
        try:
            yield corpus
        except BaseException:
            if new and not corpus.catalogue.roots():
                corpus.remove()
            raise


def _settings(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    import yaml

    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise RagLabError(f"--settings {path}: cannot be read ({error}); write it as YAML in UTF-8") from error
    if not isinstance(found, dict):
        raise RagLabError(f"--settings {path}: must hold fields such as chunker and encoder")
    return found


def _pairs(given: list[str] | None) -> dict[str, Any] | None:
    import yaml

    found: dict[str, Any] = {}
    for pair in given or ():
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise RagLabError(f"--metadata {pair}: is not FIELD=VALUE, such as valid_until=2026-12-31")
        try:
            read = yaml.safe_load(value)
        except (yaml.YAMLError, ValueError) as error:
            raise RagLabError(f"--metadata {pair}: the value cannot be read; quote it") from error
        found[name] = read.isoformat() if hasattr(read, "isoformat") else read
    return found or None


def _instant(given: str | None) -> datetime:
    from rag_lab.datasets.times import parse_instant

    return parse_instant(given, field="--time") or datetime.now(UTC)


def _report(report: Report) -> None:
    from rag_lab.terminal_corpus import print_report

    print_report(report)
    raise typer.Exit(1 if report.failed else 0)


def _shown() -> bool:
    return sys.stderr.isatty()
