"""Untrusted sources are parsed in child processes, and what they do stays there."""

from __future__ import annotations

import errno
import json
import os
import resource
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from rag_lab.corpus.parsing import guard, parse
from rag_lab.corpus.parsing.guard import Limits, Source, parse_guarded
from rag_lab.corpus.parsing.parsed import Parsed, ParseError

FILES = Path(__file__).parent / "files"


def results(sources: list[Source], limits: Limits | None = None, **options: int) -> dict[str, Parsed | ParseError]:
    return dict(parse_guarded(sources, limits, **options))  # type: ignore[arg-type]


def same(left: Parsed | ParseError, right: Parsed) -> bool:
    assert isinstance(left, Parsed), left
    fields = ("text", "blocks", "original", "parser", "title", "language", "removed", "hidden", "notes")
    assert np.array_equal(left.offsets, right.offsets)
    assert left.offsets.dtype == np.int32
    assert dict(left.metadata) == dict(right.metadata)
    return all(getattr(left, name) == getattr(right, name) for name in fields)


def test_results_are_those_of_parse_in_order() -> None:
    names = ["pandoc_handbook.html", "pandoc_handbook.md", "nbconvert_roster.ipynb", "iconv_gb18030.txt"]
    names += ["sqlite_duty.sql", "nbconvert_roster.py", "docx_python_rules.docx", "table_jq_stock.jsonl"]
    names += ["pdf_libreoffice_leave.pdf", "pdf_groff_columns.pdf", "pptx_python_yard.pptx"]
    sources: list[Source] = [(name, FILES / name) for name in names]
    found = list(parse_guarded(sources, workers=2))
    assert [name for name, _ in found] == names
    assert all(same(result, parse((FILES / name).read_bytes(), name)) for name, result in found)


def test_hidden_texts_are_handed_on_when_asked_for() -> None:
    page = b"<p>seen<p hidden>ghost"
    kept = dict(parse_guarded([("a.html", page)], keep_hidden=True))["a.html"]
    assert isinstance(kept, Parsed)
    assert kept.hidden == ("ghost",)


def test_one_bad_source_fails_alone() -> None:
    sources: list[Source] = [
        ("good.md", b"# Good"),
        ("deep.ipynb", b"[" * 200_000),
        ("noise.bin", b"\x00\x01\x02\x03" * 100),
        ("large.txt", b"a" * (31 << 20)),
        ("gone.txt", FILES / "no such file"),
        ("greedy.txt", ("é" * 14_000_000).encode()),
        ("last.txt", b"fine"),
    ]
    found = results(sources, Limits(seconds=20, memory_mb=400, original_mb=30))
    messages = {name: str(result) for name, result in found.items() if isinstance(result, ParseError)}
    assert {name for name in found if name not in messages} == {"good.md", "last.txt"}
    assert messages["deep.ipynb"].startswith("deep.ipynb: the notebook is nested too deeply")
    assert messages["noise.bin"].startswith("noise.bin: is binary and of no known format")
    assert messages["large.txt"] == "large.txt: has 31 MB, above the limit of 30 MB; leave it out"
    assert messages["gone.txt"] == "gone.txt: cannot be read (No such file or directory); check the file"
    assert messages["greedy.txt"].startswith("greedy.txt: the parser died (out of memory) under the limit of 400 MB")
    assert not any("\n" in message for message in messages.values())


def test_a_late_source_is_ended_and_the_next_one_read() -> None:
    sources: list[Source] = [("slow.md", b"a\n\n" * 3_000_000), ("last.txt", b"fine")]
    begun = time.perf_counter()
    found = results(sources, Limits(seconds=2))
    assert time.perf_counter() - begun < 15
    assert str(found["slow.md"]) == ("slow.md: parsing took longer than 2 seconds; leave it out or raise the limit")
    assert isinstance(found["last.txt"], Parsed)


def test_a_child_that_crashes_is_replaced() -> None:
    child = guard._Child(Limits(seconds=20))
    try:
        assert same(child.parse(("a.md", b"# A"), False), parse(b"# A", "a.md"))
        first = child._process
        assert first is not None
        os.kill(first.pid, 11)
        assert same(child.parse(("b.md", b"# B"), False), parse(b"# B", "b.md"))
        assert child._process is not first
    finally:
        child.stop()


def crashing(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Let children answer with a program of the test."""
    real = subprocess.Popen
    ready = "import sys, os, json, struct; w = sys.stdout.buffer\n" + (
        "def send(header, body=b''):\n"
        "    data = json.dumps(header).encode(); w.write(struct.pack('<Q', len(data)) + data + body); w.flush()\n"
        "send({'lengths': {}})\nsys.stdin.buffer.read(8)\n"
    )

    def start(command: list[str], **options: object) -> object:
        return real([sys.executable, "-c", ready + program], **options)  # type: ignore[call-overload]

    monkeypatch.setattr(guard.subprocess, "Popen", start)


ANSWER = {
    "lengths": {"text": 2, "original": 2, "offsets": 12},
    "blocks": [["paragraph", [0, 2], 0, 0, 0, None]],
    "paths": [[]],
    "parser": "p",
    "title": "",
    "language": "en",
    "metadata": {},
    "removed": {},
    "hidden": [],
    "notes": [],
}


@pytest.mark.parametrize(
    ("change", "offsets", "message"),
    [
        ({"blocks": [["paragraph", [0, 3], 0, 0, 0, None]]}, [0, 1, 2], "blocks do not fit"),
        ({"blocks": [["paragraph", [1, 0], 0, 0, 0, None]]}, [0, 1, 2], "blocks do not fit"),
        ({"blocks": [["nonsense", [0, 2], 0, 0, 0, None]]}, [0, 1, 2], "is not a valid BlockKind"),
        ({}, [0, -1, 1], "offsets do not fit"),
        ({}, [0, 9, 1], "offsets do not fit"),
        ({}, [0, 1, 9], "offsets do not fit"),
        ({"paths": []}, [0, 1, 2], "index out of range"),
        ({"title": None, "metadata": 7}, [0, 1, 2], "not iterable"),
    ],
)
def test_what_comes_back_is_checked_like_input(
    change: dict[str, object], offsets: list[int], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = json.dumps({**ANSWER, **change})
    body = b"abab" + struct.pack("<3i", *offsets)
    crashing(monkeypatch, f"send(json.loads({header!r}), {body!r})\nsys.stdin.read()")
    found = results([("a.md", b"x")])["a.md"]
    assert isinstance(found, ParseError)
    assert str(found).startswith("a.md: the parser's result is damaged (")
    assert message in str(found)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("os.abort()", "a.md: the parser died (signal 6)"),
        ("sys.exit(3)", "a.md: the parser died (exit status 3)"),
        ("w.write(struct.pack('<Q', 1 << 60)); w.flush(); sys.stdin.read()", "its answer is too long"),
        ("send({'lengths': {'text': 1 << 60}}); sys.stdin.read()", "its answer is too long"),
        ("send({'lengths': {'text': -1}}); sys.stdin.read()", "its answer is damaged"),
        ("send([]); sys.stdin.read()", "its answer is damaged"),
        ("w.write(struct.pack('<Q', 3) + b'{x}'); w.flush(); sys.stdin.read()", "the parser died ("),
        ("send({'lengths': {}, 'error': 'first\\nsecond'}); sys.stdin.read()", "a.md: first second"),
    ],
)
def test_a_child_may_do_what_it_likes(program: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    crashing(monkeypatch, program)
    found = results([("a.md", b"x")], Limits(seconds=10))["a.md"]
    assert isinstance(found, ParseError)
    assert message in str(found)
    assert "\n" not in str(found)


def test_a_child_that_cannot_start_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard.sys, "executable", "/bin/false")
    assert str(results([("a.md", b"x")])["a.md"]).startswith("/bin/false: a parsing process does not start; see why")


def test_memory_too_small_for_anything_is_said() -> None:
    found = results([("a.md", b"x")], Limits(memory_mb=20))["a.md"]
    assert str(found).startswith("a.md: the parser died (out of memory) under the limit of 20 MB of memory")


@pytest.mark.parametrize(
    ("megabytes", "error", "message"),
    [
        (1, SystemError("why"), "memory"),
        (1, ImportError("why"), "memory"),
        (0, OSError(errno.ENOMEM, "why"), "memory"),
        (0, SystemError("why"), "a.md: the parser failed (SystemError: why)"),
    ],
)
def test_whatever_fails_without_memory_failed_for_lack_of_it(
    megabytes: int, error: Exception, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*given: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(guard, "read", fails)
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20 or before[0], before[1]))
    try:
        answer, _ = guard._answer({"name": "a.md", "keep_hidden": False}, b"x", Limits())
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert answer["error"].startswith(message)


def test_sources_are_taken_as_they_are_needed_and_children_end_with_their_reader() -> None:
    taken: list[int] = []

    def sources() -> Iterator[Source]:
        for number in range(100):
            taken.append(number)
            yield f"{number}.txt", b"text"

    reader = parse_guarded(sources(), workers=2)
    assert next(reader)[0] == "0.txt"
    assert len(taken) <= 4
    children = set(_children())
    assert children
    reader.close()  # type: ignore[attr-defined]
    assert not children & set(_children())


def _children() -> list[int]:
    tasks = Path(f"/proc/{os.getpid()}/task")
    if not tasks.is_dir():
        pytest.skip("child processes are only listed on Linux")
    return [int(pid) for task in tasks.iterdir() for pid in (task / "children").read_text().split()]


@pytest.mark.slow
def test_fifty_megabytes_on_one_line() -> None:
    size = 50_000_000
    words = b"word " * (size // 5)
    sources: list[Source] = [("a.txt", words), ("a.md", words), ("a.html", b"<p>" + words)]
    for name, found in parse_guarded(sources, Limits(seconds=120), workers=2):
        assert isinstance(found, Parsed), found
        assert len(found.text.strip()) == size - 1, name
        assert len(found.blocks) == 1
        assert found.language == "en"
