"""A module imports only from its own row of the table in ARCHITECTURE.md and from those above it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import rag_lab

ROOT = Path(rag_lab.__file__).parent
LIFE = (
    "catalogue kept discovery stated ingestion prefixing settings deletion cautions removal publisher corpus held "
    "status migration purge remains exports"
)
ROWS = (
    ("contracts", "text"),
    ("store", "records", "provenance", "progress", "validation"),
    ("datasets",),
    ("retrieval",),
    ("corpus",),
    ("passages", "context", "budgets"),
    ("generation",),
    ("metrics",),
    tuple(f"corpus.{name}" for name in LIFE.split()),
    ("variants",),
    ("definition",),
    ("results", "scoring"),
    (
        "requesting",
        "thresholds",
        "preparation",
        "training",
        "experiment",
        "comparison",
        "ablation",
        "ann",
        "reproduction",
    ),
    ("reports", "tracking"),
    ("session", "doctor", "terminal", "terminal_corpus", "terminal_studies"),
    ("cli", "corpus_cli", "__main__", "__init__"),
)


def row_of(module: str) -> int:
    """The row of a module by its path below the package; the longest name that fits decides."""
    fits = [
        (len(name), number)
        for number, row in enumerate(ROWS)
        for name in row
        if module == name or module.startswith(f"{name}.")
    ]
    assert fits, f"{module}: is in no row"
    return max(fits)[1]


def imports(path: Path) -> Iterator[str]:
    """Modules of the package that a file imports, but for those that only a type checker sees."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typed = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in typed or not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("rag_lab"):
            continue
        below = (node.module or "").removeprefix("rag_lab").lstrip(".")
        for alias in node.names:
            whole = f"{below}.{alias.name}".lstrip(".")
            there = (ROOT / whole.replace(".", "/")).is_dir() or (ROOT / f"{whole.replace('.', '/')}.py").is_file()
            if there or below:
                yield whole if there else below


def test_a_module_imports_from_its_own_row_and_those_above() -> None:
    wrong = []
    for path in sorted(ROOT.rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        wrong += [f"{module} imports {name}" for name in imports(path) if row_of(name) > row_of(module)]
    assert wrong == []


def test_every_row_is_there() -> None:
    for name in {name for row in ROWS for name in row}:
        path = ROOT / name.replace(".", "/")
        assert path.is_dir() or path.with_suffix(".py").is_file(), name
