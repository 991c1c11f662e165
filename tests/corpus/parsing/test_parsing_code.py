"""Source code: definitions are blocks, and their nesting is the section path."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_lab.corpus.parsing import parse
from rag_lab.corpus.parsing.parsed import Parsed

Check = Callable[..., Parsed]

PYTHON = '''import os

LIMIT = 1


# about Box
@final
class Box:
    """Holds ü."""

    size = 1

    # about put
    @cached
    def put(self):
        def inner():
            pass

        return inner

    colour = 2

    class Lid:
        def close(self): pass


async def tail():
    return "ü"

print(tail())
'''


def blocks(parsed: Parsed) -> list[tuple[str, str]]:
    return [(".".join(b.section_path), parsed.text[slice(*b.span)]) for b in parsed.blocks]


def test_python(check: Check) -> None:
    parsed = check(parse(PYTHON.encode(), "box.py"))
    assert parsed.text == PYTHON
    assert {b.kind.value for b in parsed.blocks} == {"code"}
    assert blocks(parsed) == [
        ("", "import os"),
        ("", "LIMIT = 1"),
        ("Box", '# about Box\n@final\nclass Box:\n    """Holds ü."""'),
        ("Box", "size = 1"),
        (
            "Box.put",
            "# about put\n    @cached\n    def put(self):\n"
            "        def inner():\n            pass\n\n        return inner",
        ),
        ("Box", "colour = 2"),
        ("Box.Lid", "class Lid:"),
        ("Box.Lid.close", "def close(self): pass"),
        ("tail", 'async def tail():\n    return "ü"'),
        ("", "print(tail())"),
    ]


@pytest.mark.parametrize(
    ("name", "source", "expected"),
    [
        (
            "a.js",
            "const a = 1;\n\nclass K { m() {} }\nfunction q() {}\nvar z = function() {};\n",
            [
                ("", "const a = 1;"),
                ("K", "class K {"),
                ("K.m", "m() {} }"),
                ("q", "function q() {}"),
                ("z", "var z = function() {};"),
            ],
        ),
        (
            "a.ts",
            "export class A<T> {\n  get(a: T): void {}\n}\nexport const f = (a) => { return 1 };\n"
            "namespace N { export function g() {} }\ninterface I { a: string }\n",
            [
                ("A", "export class A<T> {"),
                ("A.get", "get(a: T): void {}\n}"),
                ("f", "export const f = (a) => { return 1 };"),
                ("N", "namespace N {"),
                ("N.g", "export function g() {} }"),
                ("I", "interface I { a: string }"),
            ],
        ),
        ("a.tsx", "function V() { return <p>x</p> }\n", [("V", "function V() { return <p>x</p> }")]),
        (
            "A.java",
            "package a;\npublic class A {\n  /** d */\n  void f() {}\n  enum E { P }\n}\n",
            [
                ("", "package a;"),
                ("A", "public class A {"),
                ("A.f", "/** d */\n  void f() {}"),
                ("A.E", "enum E { P }\n}"),
            ],
        ),
        (
            "a.c",
            "struct P { int a; };\nstatic int f(int a)\n{\n  return a;\n}\n"
            "#ifdef X\nint *g(void) { return 0; }\n#endif\n",
            [
                ("P", "struct P { int a; };"),
                ("f", "static int f(int a)\n{\n  return a;\n}"),
                ("", "#ifdef X"),
                ("g", "int *g(void) { return 0; }"),
                ("", "#endif"),
            ],
        ),
        (
            "a.cpp",
            "namespace n {\ntemplate<class T> class A {\n  void f() { }\n};\n}\nint n::A::g(int a) { return 1; }\n",
            [
                ("n", "namespace n {"),
                ("n.A", "template<class T> class A {"),
                ("n.A.f", "void f() { }\n};\n}"),
                ("n::A::g", "int n::A::g(int a) { return 1; }"),
            ],
        ),
        (
            "a.go",
            "package a\n\n// Get it.\nfunc (s *Box[T]) Get() int { return 1 }\ntype T struct { A int }\n",
            [
                ("", "package a"),
                ("Box.Get", "// Get it.\nfunc (s *Box[T]) Get() int { return 1 }"),
                ("T", "type T struct { A int }"),
            ],
        ),
        (
            "a.rs",
            "#[derive(Debug)]\nstruct Q;\nimpl<T> Foo for Bar<T> {\n    fn x() {}\n}\nmod m { pub fn y() {} }",
            [
                ("Q", "#[derive(Debug)]\nstruct Q;"),
                ("Bar<T>", "impl<T> Foo for Bar<T> {"),
                ("Bar<T>.x", "fn x() {}\n}"),
                ("m", "mod m {"),
                ("m.y", "pub fn y() {} }"),
            ],
        ),
        (
            "a.sh",
            "#!/bin/sh\n\nf() { echo; }\nfunction g { ls; }\necho\n",
            [("", "#!/bin/sh"), ("f", "f() { echo; }"), ("g", "function g { ls; }"), ("", "echo")],
        ),
        ("run", "#!/usr/bin/env python3\n\ndef f(): pass\n", [("", "#!/usr/bin/env python3"), ("f", "def f(): pass")]),
        (
            "a.sql",
            "-- t\nCREATE TABLE a.b (x int);\nselect 1;",
            [("a.b", "-- t\nCREATE TABLE a.b (x int);"), ("", "select 1;")],
        ),
        ("a.rb", "def a\nend\n\ndef b\nend\n", [("", "def a\nend"), ("", "def b\nend")]),
        ("a.py", "", []),
    ],
)
def test_definitions_of_other_languages(name: str, source: str, expected: list[tuple[str, str]], check: Check) -> None:
    parsed = check(parse(source.encode(), name))
    assert parsed.text == source
    assert blocks(parsed) == expected


@given(st.text(alphabet="def class:(){}\n ;é#@=", max_size=150), st.sampled_from(["a.py", "a.ts", "a.cpp", "a.sql"]))
def test_any_text_is_code(source: str, name: str) -> None:
    parsed = parse(source.encode(), name)
    assert parsed.text == source
    covered = "".join(parsed.text[slice(*block.span)] for block in parsed.blocks)
    assert "".join(covered.split()) == "".join(source.split())


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("a.py", "(" * 200_000),
        ("a.js", "{" * 200_000),
        ("a.cpp", "namespace a {" * 20_000),
        ("a.rs", "mod a {" * 20_000 + "}" * 20_000),
        ("a.py", "".join(" " * i + "class A:\n" for i in range(500))),
        ("a.py", "def f(): pass\n" * 20_000),
        ("a.py", "# c\n" * 50_000 + "def f(): pass\n"),
    ],
)
def test_hostile_code_takes_linear_time(name: str, source: str) -> None:
    begun = time.perf_counter()
    parsed = parse(source.encode(), name)
    assert time.perf_counter() - begun < 8
    assert parsed.text == source


def test_script_of_nbconvert(parse_file: Check) -> None:
    parsed = parse_file("nbconvert_roster.py")
    assert ("draw", "def draw(seed):\n    # the lot\n    return people[seed % 2]") in blocks(parsed)
    assert parsed.language == "en"


def test_dump_of_sqlite(parse_file: Check) -> None:
    parsed = parse_file("sqlite_duty.sql")
    assert ("person", "CREATE TABLE person(id INTEGER PRIMARY KEY, name TEXT NOT NULL);") in blocks(parsed)
    assert ("names", "CREATE VIEW names AS SELECT name FROM person;") in blocks(parsed)
