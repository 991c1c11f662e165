"""Jupyter notebooks: cells and the text of their outputs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from rag_lab.corpus.parsing import ParseError, parse
from rag_lab.corpus.parsing.parsed import Parsed

Check = Callable[..., Parsed]


def notebook(*cells: dict[str, Any], **metadata: Any) -> bytes:
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": cells}).encode()


def code(source: str, *outputs: dict[str, Any]) -> dict[str, Any]:
    return {"cell_type": "code", "source": source, "outputs": list(outputs), "metadata": {}}


def blocks(parsed: Parsed) -> list[tuple[str, str, str]]:
    return [(b.kind.value, ".".join(b.section_path), parsed.text[slice(*b.span)]) for b in parsed.blocks]


@pytest.mark.parametrize("name", ["nbconvert_roster.ipynb", "nbconvert_roster_v3.ipynb"])
def test_executed_notebook(name: str, parse_file: Check) -> None:
    parsed = parse_file(name)
    found = blocks(parsed)
    assert found[:8] == [
        ("heading", "Duty roster", "# Duty roster"),
        ("paragraph", "Duty roster", "Who is on duty is drawn by *lot*."),
        ("code", "Duty roster", 'people = ["Ann", "Bo"]'),
        ("code", "Duty roster.draw", "def draw(seed):\n    # the lot\n    return people[seed % 2]"),
        ("code", "Duty roster", "print(draw(1))"),
        ("code", "Duty roster", "Bo"),
        ("heading", "Duty roster.Trouble", "## Trouble"),
        ("paragraph", "Duty roster.Trouble", "A name that is not on the list raises an error."),
    ]
    assert found[-2:] == [
        ("code", "Duty roster.Trouble", "{'Ann': 1}"),
        ("paragraph", "Duty roster.Trouble", "End of the roster."),
    ]
    assert "ValueError: 'Cy' is not in list" in parsed.text
    assert "[31m" not in parsed.text
    assert "R0lGODlhAQABAIAAAAAAAP" in parsed.original
    assert "IPython.core.display.Image" not in parsed.text
    assert parsed.title == "Duty roster"
    assert parsed.original.count("R0lGOD") == 1


def test_outputs_of_all_kinds(check: Check) -> None:
    data = notebook(
        code(
            "x",
            {"output_type": "stream", "text": ["10 %\r", "100 %\n", "\x1b[1mdone\x1b[0m\r\n"]},
            {"output_type": "error", "ename": "E", "evalue": "bad", "traceback": ["\x1b[0;31mE\x1b[0m: bad"]},
            {"output_type": "error", "ename": "E", "evalue": "bare", "traceback": []},
            {"output_type": "display_data", "data": {"image/png": "iVBORw0KGgo="}},
            {"output_type": "display_data", "data": {"text/plain": "<Figure size 640x480 with 1 Axes>"}},
            {"output_type": "execute_result", "data": {"text/html": "<b>1</b>", "text/plain": ["1"]}},
            {"output_type": "display_data", "data": {"text/markdown": "## From code", "text/plain": "<x>"}},
            {"output_type": "nonsense"},
        ),
        {"cell_type": "markdown", "source": ["after ", "<!-- c -->", "<i hidden>ghost</i>"]},
    )
    parsed = check(parse(data, "a.ipynb", keep_hidden=True))
    assert [text for _, _, text in blocks(parsed)] == [
        "x",
        "100 %\ndone",
        "E: bad",
        "E: bare",
        "1",
        "## From code",
        "after",
    ]
    assert parsed.blocks[-1].section_path == ("From code",)
    assert parsed.hidden == ("ghost",)
    assert parsed.removed == {"hidden": 1}


def test_language_is_that_of_the_prose() -> None:
    german = {"cell_type": "markdown", "source": "Die Angestellten müssen drei Tage vorher fragen."}
    english = code("# the code is commented in English, as it is nearly everywhere\n" * 20)
    assert parse(notebook(german, english), "a.ipynb").language == "de"


def test_cells_in_other_languages_are_cut_at_blank_lines() -> None:
    magic = code("%%bash\ndef f(): pass\n\nls")
    parsed = parse(notebook(magic, kernelspec={"language": "python"}), "a.ipynb")
    assert blocks(parsed) == [("code", "", "%%bash\ndef f(): pass"), ("code", "", "ls")]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", "a.ipynb: is no JSON, and so no notebook"),
        (b"[1]", "a.ipynb: field nbformat is missing"),
        (b"{}", "a.ipynb: field nbformat is missing"),
        (b"[" * 200_000, "a.ipynb: the notebook is nested too deeply"),
        (b'{"nbformat": 3, "worksheets": 7}', "a.ipynb: nbformat 3 cannot be converted"),
        (b'{"nbformat": ' + b"9" * 10_000 + b"}", "a.ipynb: is no JSON"),
    ],
)
def test_what_is_no_notebook(data: bytes, message: str) -> None:
    with pytest.raises(ParseError) as raised:
        parse(data, "a.ipynb")
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "cells", [None, 7, {"a": 1}, [7, None, {}], [{"cell_type": "code", "source": 7, "outputs": 3}]]
)
def test_damaged_cells_are_left_out(cells: Any) -> None:
    data = json.dumps({"nbformat": 4, "cells": cells, "metadata": None}).encode()
    assert parse(data, "a.ipynb").text == ""
