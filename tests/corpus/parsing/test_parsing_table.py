"""CSV, TSV, JSON Lines and JSON: separators, headers, offsets, damaged records, and large files."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.contracts import BlockKind
from rag_lab.corpus.parsing import parse, table
from rag_lab.corpus.parsing.parsed import Parsed, ParseError

FILES = Path(__file__).parent / "files"


def read(data: bytes | str, name: str = "a.csv") -> Parsed:
    parsed = parse(data if isinstance(data, bytes) else data.encode(), name)
    assert len(parsed.offsets) == len(parsed.text) + 1
    assert (parsed.offsets[1:] >= parsed.offsets[:-1]).all()
    return parsed


def read_file(name: str) -> Parsed:
    return read((FILES / name).read_bytes(), name)


def lead(parsed: Parsed) -> str | None:
    span = parsed.blocks[0].lead
    return parsed.text[slice(*span)] if span else None


# --- tables ---------------------------------------------------------------------------------------------------------


def test_sqlite_csv() -> None:
    parsed = read_file("table_sqlite_stock.csv")
    assert parsed.text == (
        "| item | note | price | ordered |\n"
        '| Lamp, brass | with a "soft" light | 12.5 | 2024-01-05 |\n'
        "| Rope | two lines: twenty metres | 3.1 | 2024-02-11 |\n"
        "| Oil \\| lamp oil |  | 4.0 | 2024-02-12 |"
    )
    assert lead(parsed) == "| item | note | price | ordered |"
    assert [(block.kind, block.span) for block in parsed.blocks] == [(BlockKind.TABLE, (0, len(parsed.text)))]
    assert parsed.notes == ()
    for word in ("brass", "soft", "twenty", "4.0"):
        at = parsed.text.index(word)
        assert parsed.offsets[at] == parsed.original.index(word)


def test_libreoffice_csv_in_gbk() -> None:
    parsed = read_file("table_libreoffice_gbk.csv")
    assert parsed.text == (
        "| 姓名 | 部门 | 入职日期 | 备注 |\n| 张三 | 采购部 | 2019-03-01 | 负责北区的供应商 |\n"
        "| 李四 | 财务部 | 2020-07-15 |  |\n| 王小明 | 客服部 | 2021-11-30 | 周末值班, 可以电话联系 |"
    )
    assert lead(parsed) == "| 姓名 | 部门 | 入职日期 | 备注 |"
    assert parsed.language == "zh"
    assert any("gb" in note for note in parsed.notes)


@pytest.mark.parametrize(
    "data, name, text",
    [
        ("name;price\nTee;1,5\nKaffee;2,5\n", "a.csv", "| name | price |\n| Tee | 1,5 |\n| Kaffee | 2,5 |"),
        ("a|b\nx|y\n", "a.csv", "| a | b |\n| x | y |"),
        ("a\tb,c\nx\ty\n", "a.tsv", "| a | b,c |\n| x | y |"),
        ("a\tb\nx\ty\n", "a.csv", "| a | b |\n| x | y |"),
        ("sep=;\r\na;b,c\r\nx;y\r\n", "a.csv", "| a | b,c |\n| x | y |"),
        ("\ufeffa,b\rx,y\r", "a.csv", "| a | b |\n| x | y |"),
        ("a,b\n\n,\nx,  y z \n", "a.csv", "| a | b |\n| x | y z |"),
        ("a,b\nx,\u200by\u00ad\n", "a.csv", "| a | b |\n| x | y |"),
        ("word\nother\n", "a.csv", "| word |\n| other |"),
        ("", "a.csv", ""),
    ],
)
def test_separators_and_line_ends(data: str, name: str, text: str) -> None:
    assert read(data, name).text == text


@pytest.mark.parametrize("first", ["1,2", "a,a", "a,", "2024-01-05,b", "a,12.5 %", f"a,{'b' * 100}"])
def test_no_header(first: str) -> None:
    parsed = read(f"{first}\nx,y\n")
    assert lead(parsed) is None
    assert "no header row" in parsed.notes


def test_ragged_rows_are_reported_with_their_lines() -> None:
    parsed = read('a,b,c\n"x\ny",2\n1,2,3,4\n5,6,7\n' + "8\n" * 12)
    assert parsed.notes == (
        "rows without 3 cells: line 2 has 2, line 4 has 4, "
        + ", ".join(f"line {line} has 1" for line in range(6, 14))
        + " and 4 more",
    )
    assert parsed.text.startswith("| a | b | c |\n| x y | 2 |\n| 1 | 2 | 3 | 4 |\n| 5 | 6 | 7 |\n| 8 |")


def test_a_quote_that_is_never_closed_does_not_swallow_the_file() -> None:
    parsed = read('a,b\n1,"open\n2,c\n')
    assert parsed.text == '| a | b |\n| 1 | "open |\n| 2 | c |'
    assert parsed.notes == ("line 2: a quote is never closed",)


cells = st.text(st.sampled_from('ab,;"\n é中'), max_size=6)


@settings(max_examples=100, deadline=None)
@given(st.integers(2, 4).flatmap(lambda n: st.lists(st.lists(cells, min_size=n, max_size=n), min_size=2, max_size=5)))
def test_cells_are_those_of_the_csv_module(rows: list[list[str]]) -> None:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    reader = table._Reader(out.getvalue(), ",")
    found = [[out.getvalue()[start:end].replace('""', '"') for start, end, _ in row.cells] for row in reader.rows()]
    assert found == [row for row in rows if any(row)]
    assert reader.notes == []


@pytest.mark.slow
def test_a_million_cells() -> None:
    names = ",".join(f"column{i}" for i in range(20))
    parsed = read(names + "\n" + (",".join(["value"] * 20) + "\n") * 50_000)
    assert parsed.text.count("\n") == 50_000
    assert len(parsed.text) == len(names) + 19 * 2 + 4 + 50_000 * (20 * 8 + 2)


def test_too_many_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "MOST_CELLS", 5)
    with pytest.raises(ParseError, match=r"^a\.csv: has more than 5 cells; split the file$"):
        read("a,b\n1,2\n3,4\n")


@pytest.mark.parametrize("data", ['"' * 300_000, "a,b\n" + '"x,1\n' * 50_000, "," * 300_000, '"a" b,' * 50_000])
def test_hostile_quotes_take_linear_time(data: str) -> None:
    assert len(read(data).text) >= len(data.replace(",", "")) // 2


# --- records --------------------------------------------------------------------------------------------------------


def test_s01_a_record_may_contain_a_line_separator() -> None:
    data = (
        '\ufeff{"_id":"d1","text":"alpha\u2028beta"}\r\n{"_id":"d2","text":"gamma\u0085delta"}\n'
        '{"_id":"d3","text":"epsilon"}'
    )
    parsed = read(data, "a.jsonl")
    records = [parsed.text[slice(*block.span)] for block in parsed.blocks]
    assert [record.split("\n")[0] for record in records] == ["_id: d1", "_id: d2", "_id: d3"]
    assert [len(record.split("text: ")[1]) for record in records] == [10, 11, 7]
    assert parsed.notes == ()


def test_broken_lines_are_reported_and_the_others_kept() -> None:
    parsed = read('{"a":"one"}\n\n{broken\n"two"\n{"a":"three"}}\n', "a.jsonl")
    assert parsed.text == "a: one\n\ntwo"
    assert parsed.notes == (
        "line 3 is no JSON: Expecting property name enclosed in double quotes at character 2",
        "line 5 is no JSON: Extra data at character 14",
    )
    parsed = read('{"a":1}\n' + "x\n" * 25, "a.jsonl")
    assert len(parsed.notes) == 11
    assert parsed.notes[-1] == "15 more lines are no JSON"
    with pytest.raises(ParseError, match=r"^a\.jsonl: no line holds JSON \(line 1 is no JSON"):
        read("x\ny\n", "a.jsonl")


def test_sqlite_json_and_jq_lines() -> None:
    parsed = read_file("table_sqlite_stock.json")
    records = [parsed.text[slice(*block.span)] for block in parsed.blocks]
    assert records[0] == 'item: Lamp, brass\nnote: with a "soft" light\nprice: 12.5\nordered: 2024-01-05'
    assert records[2] == "item: Oil | lamp oil\nprice: 4.0\nordered: 2024-02-12"
    parsed = read_file("table_jq_stock.jsonl")
    records = [parsed.text[slice(*block.span)] for block in parsed.blocks]
    assert records[1] == (
        "item: Rope\nnote: two lines:\ntwenty metres\nprice: 3.1\ntags: new, dry\nshelf.row: 3\nshelf.place: left"
    )
    at = parsed.text.index("twenty")
    assert parsed.original[parsed.offsets[at] :].startswith("twenty metres")
    assert parsed.original[parsed.offsets[at - 1] :].startswith("\\n")


@pytest.mark.parametrize(
    "data, name, text",
    [
        ('[{"a": "x", "b": 2}, {"a": "y"}, 5]', "a.json", "a: x\nb: 2\n\na: y\n\n5"),
        ('{"a": {"b": "x", "c": null, "d": ""}}', "a.json", "a.b: x"),
        ('{"a": 1}\n{"a": 2}\n', "a.json", "a: 1\n\na: 2"),
        ('{"a": [1, {"b": "x"}, 2, [3, 4]], "e": []}', "a.json", "a: 1\na[1].b: x\na: 2\na[3]: 3, 4"),
        ("[[], {}, null]", "a.json", ""),
        ('{"\\u0061\\"": "\\ud83d\\ude00\\t\\u00e9\\/"}', "a.json", 'a": 😀\té/'),
        ('{"a": true, "b": -1.5e3}', "a.json", "a: true\nb: -1.5e3"),
    ],
)
def test_json(data: str, name: str, text: str) -> None:
    assert read(data, name).text == text


@pytest.mark.parametrize(
    "data", ['{"a": 1', "[1,", "", '{"a": 1}}}', "[" * 100_000 + "]" * 100_000, "[" * 150 + "]" * 150]
)
def test_json_that_is_none(data: str) -> None:
    with pytest.raises(ParseError, match=r"^a\.json: "):
        read(data, "a.json")


def test_deep_records_are_left_out() -> None:
    deep = '{"a":' * 5_000 + "1" + "}" * 5_000
    parsed = read(f'{deep}\n{{"a": 1}}\n', "a.jsonl")
    assert parsed.text == "a: 1"
    assert parsed.notes == ("line 1 is no JSON: nested too deeply, or a number too long",)


plain = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z", "M"]), min_size=1, max_size=8)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(["id", "text", "kind"]), plain, min_size=1), min_size=1), st.booleans())
def test_values_are_those_of_the_json_module(records: list[dict[str, str]], escaped: bool) -> None:
    data = "\n".join(json.dumps(record, ensure_ascii=escaped) for record in records)
    parsed = read(data, "a.jsonl")
    expected = parse(
        "\n\n".join("\n".join(f"{k}: {v}" for k, v in record.items()) for record in records).encode(), "a.txt"
    )
    assert parsed.text == expected.text
    assert len(parsed.blocks) == len(records)
