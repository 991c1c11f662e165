"""``rag-lab corpus``: what is printed, exit statuses, and errors of one line."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rag_lab import cli

HEAVY = ("torch", "faiss", "jnius", "pandas", "pyarrow", "sqlite3", "transformers")


class Ended(NamedTuple):
    """How a command ended."""

    status: Any
    out: str
    err: str


Call = Callable[..., Ended]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, hash_encoder) -> Call:
    """Run ``rag-lab corpus ARGUMENTS`` in this process, with a store and an encoder of the test's own."""
    monkeypatch.setenv("RAG_LAB_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("rag_lab.retrieval.encoders.load_encoder", lambda name: hash_encoder)

    def run(*arguments: str | Path) -> Ended:
        monkeypatch.setattr(sys, "argv", ["rag-lab", "corpus", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return Ended(end.value.code, *capsys.readouterr())

    return run


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "leave.md").write_text("# Leave\n\nTwenty days a year.\n\n## Bonus\n\nTen more days.\n")
    (folder / "travel.txt").write_text("The allowance is 500 euros.")
    (folder / "rights.yaml").write_text(
        'rules:\n  "*": {tenant: acme, public: true}\n  "leave.md": {sections: {Bonus: {groups: [hr]}}}\n'
    )
    (tmp_path / "kb.yaml").write_text("analyzer: none\nencoder: hash\nfreshness: {revoked_at_once: true}\n")
    return folder


@pytest.fixture
def made(call: Call, docs: Path) -> Call:
    assert call("add", "kb", docs, "--settings", docs.with_name("kb.yaml")).status == 0
    return call


def lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def test_help_is_light_and_names_every_command() -> None:
    script = (
        "import sys\nsys.argv = ['rag-lab', 'corpus', '--help']\nfrom rag_lab import cli\n"
        "try:\n    cli.main()\nexcept SystemExit:\n    pass\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    named = set(re.findall(r"│ (\w+) ", done.stdout))
    assert {"add", "update", "delete", "revoke", "lift", "status", "chunks", "activate", "migrate", "list"} <= named


def test_adding_says_what_came_of_it(call: Call, docs: Path) -> None:
    (docs / "photo.jpg").write_bytes(b"\xff")
    done = call("add", "kb", docs, "--settings", docs.with_name("kb.yaml"))
    assert done.status == 0
    found = lines(done.out)
    assert re.fullmatch(r"Generation 1 is active after [\d.]+ s\.", found[0])
    assert found[1:] == [
        "added 2: leave.md, travel.txt",
        "parsed 2, known before 0",
        "encoded 3, known before 0",
        "left out .jpg files 1",
    ]
    again = call("add", "kb", docs)
    assert lines(again.out)[0] == "Nothing to publish: 2 documents unchanged."


def test_a_source_that_fails_is_listed_and_ends_with_status_1(made: Call, docs: Path) -> None:
    (docs / "broken.txt").write_bytes(b"\x00\x01\x02")
    (docs / "travel.txt").write_text("The allowance is 600 euros.")
    done = made("update", "kb")
    assert done.status == 1
    text = " ".join(lines(done.out))
    assert "updated 1: travel.txt" in text
    assert "Failed; what was published of them stays broken.txt is binary and of no known format" in text


def test_documents_that_admit_nobody_are_pointed_out(call: Call, docs: Path) -> None:
    (docs / "rights.yaml").unlink()
    done = call("add", "kb", docs, "--public", "--settings", docs.with_name("kb.yaml"))
    assert "no tenant or no readers are stated, so nobody reads 2 documents: leave.md, travel.txt" in " ".join(
        " ".join(lines(done.out)).split()
    )
    call(
        "add", "kb", docs, "--tenant", "acme", "--group", "hr", "--group", "it", "--metadata", "valid_until=2026-12-31"
    )
    assert "1 chunk of travel.txt" in call("chunks", "kb", "travel.txt", "--tenant", "acme", "--group", "it").out
    late = call("chunks", "kb", "travel.txt", "--tenant", "acme", "--group", "it", "--time", "2027-01-01").out
    assert "Nothing of travel.txt is there that this reader may read." in late


def test_chunks_are_shown_to_those_who_may_read_them(made: Call) -> None:
    nobody = made("chunks", "kb", "leave.md")
    assert (nobody.status, "Twenty" in nobody.out) == (0, False)
    assert "Nothing is shown without a reader: name one with --tenant and --group." in " ".join(lines(nobody.out))
    staff = made("chunks", "kb", "leave.md", "--tenant", "acme").out
    assert "Twenty days" in staff
    assert "Ten more" not in staff
    assert "1 chunk of leave.md" in staff
    hr = lines(made("chunks", "kb", "leave.md", "--tenant", "acme", "--group", "hr").out)
    assert hr[4] == "leave.md#1 characters 30 to 54 living"
    assert hr[5:8] == [
        "headings Leave > Bonus",
        "rights tenant acme; groups hr and public",
        "embedded Leave Leave Bonus ## Bonus Ten more days.",
    ]
    other = made("chunks", "kb", "leave.md", "--tenant", "other", "--group", "hr").out
    assert "Nothing of leave.md is there that this reader may read." in other
    assert made("chunks", "kb", "nobody", "--tenant", "acme").out == other.replace("leave.md", "nobody")


def test_a_denial_is_told_only_to_whom_the_document_would_be_shown(made: Call) -> None:
    assert made("revoke", "kb", "travel.txt", "--reason", "leaked").out == "denied: travel.txt (epoch 1)\n"
    mine = made("chunks", "kb", "travel.txt", "--tenant", "acme").out
    assert "travel.txt is denied: nobody reads it in any generation until it is lifted." in mine
    assert "500" not in mine
    assert "denied" not in made("chunks", "kb", "travel.txt", "--tenant", "other").out
    assert made("lift", "kb", "travel.txt").out == "lifted: travel.txt (epoch 2)\n"
    assert "500 euros" in made("chunks", "kb", "travel.txt", "--tenant", "acme").out


def test_an_unknown_id_is_denied_and_ends_with_status_1(made: Call) -> None:
    done = made("revoke", "kb", "nobody", "--reason", "leaked")
    assert (done.status, done.err) == (1, "note: corpus kb has no document nobody; check the ids\n")


def test_chunks_of_an_older_generation_are_called_dead(made: Call, docs: Path) -> None:
    (docs / "travel.txt").write_text("The allowance is 600 euros.")
    assert made("update", "kb").status == 0
    old = made("chunks", "kb", "travel.txt", "--tenant", "acme", "--generation", "1").out
    assert "dead: replaced or removed since" in " ".join(lines(old))
    assert "500 euros" in old
    assert made("activate", "kb", "1").out == "generation 3 is active (restores generation 1)\n"
    found = lines(made("activate", "kb").out)
    assert found[0] == "generation state documents chunks activated (UTC) encoder note"
    assert [line.split()[:4] for line in found[1:]] == [
        ["1", "retired", "2", "3"],
        ["2", "retired", "2", "3"],
        ["3", "active", "2", "3"],
    ]


def test_deleting_and_status(made: Call, docs: Path) -> None:
    assert made("status", "kb").status == 0
    done = made("delete", "kb", "travel.txt", "--reason", "asked for")
    assert (done.status, "removed 1: travel.txt" in " ".join(lines(done.out))) == (0, True)
    (docs / "new.txt").write_text("news")
    shown = made("status", "kb")
    text = " ".join(lines(shown.out))
    for part in (
        "generation 2, snapshot ",
        "size 1 document, 2 chunks",
        "sources active 1, deleted 1",
        "parsed 100.0 % of the sources",
        "in a chunk 100.0 % of the characters",
        "with a vector 100.0 % of the chunks",
        "rag-lab corpus update brings them out new 1: new.txt",
        "Not read any more and not purged travel.txt deleted, for ",
        "revocations at once 100% within 1 s none happened open",
    ):
        assert part in text
    assert all(len(line) <= 100 for line in shown.out.splitlines())
    assert "new.txt" not in made("status", "kb", "--no-drift").out


def test_a_missed_target_ends_with_status_1(call: Call, docs: Path) -> None:
    settings = docs.with_name("kb.yaml")
    settings.write_text("analyzer: none\nencoder: hash\nfreshness: {index_age_s: 0.000001}\n")
    call("add", "kb", docs, "--settings", settings)
    done = call("status", "kb")
    assert done.status == 1
    assert "missed" in done.out


def test_expired_documents_are_listed_and_taken_out(made: Call, docs: Path) -> None:
    (docs / "travel.txt").write_text("The allowance was 400 euros.")
    (docs / "rights.yaml").write_text('rules:\n  "*": {tenant: acme, public: true, valid_until: 2020-12-31}\n')
    made("update", "kb")
    assert made("expire", "kb", "--time", "2020-12-31").out == ""
    assert made("expire", "kb").out == "leave.md\ntravel.txt\n"
    assert "removed 2: leave.md, travel.txt" in " ".join(lines(made("expire", "kb", "--remove").out))


def test_policies_take_effect_without_publishing(call: Call, docs: Path, tmp_path: Path) -> None:
    (docs / "rights.yaml").write_text('rules:\n  "*": {tenant: acme, policy: p1}\n')
    call("add", "kb", docs, "--settings", docs.with_name("kb.yaml"))
    reader = ("chunks", "kb", "travel.txt", "--tenant", "acme", "--group", "hr")
    assert "500 euros" not in call(*reader).out
    book = tmp_path / "book.yaml"
    book.write_text("policies:\n  - {id: p1, groups: [hr]}\n")
    assert re.fullmatch(r"1 versions of policies \(version \w+\)\n", call("policies", "kb", book).out)
    assert "500 euros" in call(*reader).out
    book.write_text("policies: [{id: p1, grups: [hr]}]\n")
    assert "grups: unknown" in call("policies", "kb", book).err
    assert "500 euros" in call(*reader).out


def test_migrating_shows_both_models_and_the_decision(
    call: Call, docs: Path, hash_encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Other(type(hash_encoder)):
        name, version, dimension = "other", "other-1", 64

    loaded = {"hash": hash_encoder, "other": Other()}
    call("add", "kb", "dataset:handbook", "--settings", docs.with_name("kb.yaml"))
    monkeypatch.setattr("rag_lab.retrieval.encoders.load_encoder", loaded.__getitem__)
    done = call("migrate", "kb", "other", "handbook", "--limit", "20")
    found = lines(done.out)
    assert found[0] == "Dense retrieval on 20 questions of handbook"
    assert found[1] == "metric hash other difference interval Holm p n"
    assert [line.split()[0] for line in found[2:4]] == ["nDCG@10", "Recall@100"]
    assert "rag-lab corpus activate kb 2 switches to other." in " ".join(found[4:])
    switched = call("migrate", "kb", "other", "handbook", "--limit", "20", "--switch")
    assert "Switched to other: generation 3 is active" in " ".join(lines(switched.out))


def test_corpora_are_listed(made: Call) -> None:
    found = lines(made("list").out)
    assert found[0] == "corpus generation documents chunks activated (UTC)"
    assert found[1].split()[:4] == ["kb", "1", "2", "3"]
    assert found[2] == "1 corpus"


@pytest.mark.parametrize(
    "arguments, message",
    [
        (
            ("update", "nope"),
            "rag-lab: corpus nope: unknown, there are kb; create it with rag-lab corpus add nope PATH",
        ),
        (("add", "new", "nowhere.md"), "rag-lab: nowhere.md: no such file or folder; name one, or a dataset as"),
        (("add", "../x", "."), "rag-lab: corpus '../x': not a name"),
        (("add", "kb", ".", "--settings", "kb.yaml"), "rag-lab: --settings kb.yaml: corpus kb is there already"),
        (("add", "new", ".", "--settings", "nope.yaml"), "rag-lab: --settings nope.yaml: cannot be read"),
        (
            ("add", "new", ".", "--settings", "prefix.yaml"),
            "rag-lab: corpus new, setting context_prefix.generator: 'extractive' writes no text of its own",
        ),
        (("add", "kb", ".", "--metadata", "x"), "rag-lab: --metadata x: is not FIELD=VALUE"),
        (("delete", "kb", "nobody"), "rag-lab: corpus kb: has no document 'nobody'; nothing was deleted"),
        (("lift", "kb", "travel.txt"), "rag-lab: corpus kb: document 'travel.txt' is not denied; nothing was lifted"),
        (("activate", "kb", "7"), "rag-lab: generation 7: unknown; this corpus has 1"),
        (("chunks", "kb", "x", "--time", "soon"), "rag-lab: --time: 'soon' is not a date"),
        (("migrate", "kb", "hash", "handbook"), "rag-lab: --encoder hash: is the present one; name another"),
        (("revoke", "kb", "travel.txt"), "rag-lab: Missing option '--reason'"),
    ],
)
def test_errors_are_one_line(
    made: Call, docs: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(docs.parent)
    Path("prefix.yaml").write_text("context_prefix: {generator: extractive}\n")
    done = made(*arguments)
    assert done.status == 2
    assert done.err.startswith(message)
    assert done.err.count("\n") == 1
    assert "new" not in made("list").out
