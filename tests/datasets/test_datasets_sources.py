"""Where a name leads, and what is kept of a download."""

from __future__ import annotations

import hashlib
import io
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from rag_lab.contracts import RagLabError
from rag_lab.datasets import available, beir_hub, embedded, keeping, load
from rag_lab.datasets.options import dataset_cache


class Host:
    """A host of archives on this machine; `requests` lists what was asked for."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.requests: list[str] = []
        host = self

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                self.answer(with_body=False)

            def do_GET(self) -> None:
                self.answer(with_body=True)

            def answer(self, with_body: bool) -> None:
                host.requests.append(f"{self.command} {self.path}")
                content = host.files.get(self.path)
                self.send_response(200 if content is not None else 404)
                self.send_header("Content-Length", str(len(content or b"")))
                self.end_headers()
                if with_body and content is not None:
                    self.wfile.write(content)

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def host() -> Iterator[Host]:
    running = Host()
    yield running
    running.server.shutdown()
    running.server.server_close()


@pytest.fixture
def archive(written, host, monkeypatch) -> bytes:
    """A zip of a small collection, served as the archive `little` of BEIR with its checksum."""
    folder = written("little")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as zipped:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                zipped.write(path, Path("little") / path.relative_to(folder))
    content = buffer.getvalue()
    host.files["/little.zip"] = content
    monkeypatch.setattr(beir_hub, "ARCHIVES", {"little": hashlib.md5(content).hexdigest()})
    return content


def leftovers(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir()) if cache.is_dir() else []


def test_a_folder_is_taken_as_it_is(written):
    assert load(str(written())).name == "tiny"


def test_a_name_is_looked_up_under_the_data_root_then_in_the_cache(written, monkeypatch, tmp_path):
    in_cache = written("cache/datasets/mine", stated={"source": "cache"})
    assert in_cache.parent == dataset_cache()
    assert load("mine").source == "cache"
    written("root/mine", stated={"source": "root"})
    monkeypatch.setenv("RAG_LAB_DATA", str(tmp_path / "root"))
    assert load("mine").source == "root"


def test_an_unknown_name_says_where_it_was_looked_for(monkeypatch, tmp_path):
    monkeypatch.setenv("RAG_LAB_DATA", str(tmp_path / "root"))
    with pytest.raises(RagLabError) as caught:
        load("nowhere")
    message = str(caught.value)
    assert "\n" not in message
    for part in (
        "dataset 'nowhere': not found",
        str(tmp_path / "root" / "nowhere"),
        "BEIR",
        "embedded",
        "RAG_LAB_DATA",
    ):
        assert part in message


def test_a_folder_without_its_files_is_no_dataset(tmp_path):
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "corpus.jsonl").write_text("{}")
    with pytest.raises(RagLabError, match=r"half \(it has no queries\.jsonl\)"):
        load(tmp_path / "half")


def test_an_empty_name_is_refused():
    with pytest.raises(RagLabError, match="the name is empty"):
        load(" ")


def test_family_33_an_archive_is_downloaded_checked_and_kept(host, archive, tmp_path):
    cache = tmp_path / "kept"
    dataset = load("little", mirror=host.address, cache=cache)
    assert [d.document_id for d in dataset.documents] == ["d1", "d2", "d3"]
    assert dataset.source == f"{host.address}/little.zip"
    stated = (cache / "little" / "dataset.json").read_text()
    assert hashlib.sha256(archive).hexdigest() in stated
    assert leftovers(cache) == ["little"]


def test_family_34_what_is_kept_is_not_downloaded_again(host, archive, tmp_path):
    cache = tmp_path / "kept"
    first = load("little", mirror=host.address, cache=cache)
    asked = len(host.requests)
    assert asked == 2
    second = load("little", mirror=host.address, cache=cache)
    assert len(host.requests) == asked
    assert second.fingerprint == first.fingerprint


def test_family_33_a_host_that_is_down_is_named(archive, tmp_path):
    with pytest.raises(RagLabError) as caught:
        load("little", mirror="http://127.0.0.1:9", cache=tmp_path / "kept")
    message = str(caught.value)
    assert "\n" not in message
    assert "the host cannot be reached" in message
    assert f"put the BEIR folder of little at {tmp_path / 'kept' / 'little'} by hand" in message
    assert leftovers(tmp_path / "kept") == []


def test_family_33_a_missing_archive_is_named(host, archive, tmp_path):
    del host.files["/little.zip"]
    with pytest.raises(RagLabError, match="the host answers 404"):
        load("little", mirror=host.address, cache=tmp_path / "kept")


@pytest.mark.parametrize(
    "damage, why",
    [
        (lambda content: content[: len(content) // 2], "the download broke off"),
        (lambda content: content + b" ", "the archive has MD5"),
        (lambda content: b"<html>moved</html>", "the download broke off"),
    ],
    ids=["half", "other", "page"],
)
def test_family_33_a_damaged_archive_is_refused_and_leaves_nothing(host, archive, tmp_path, damage, why):
    host.files["/little.zip"] = damage(archive)
    with pytest.raises(RagLabError, match=why):
        load("little", mirror=host.address, cache=tmp_path / "kept")
    assert leftovers(tmp_path / "kept") == []


def test_an_archive_with_a_broken_record_is_not_kept(host, archive, tmp_path, monkeypatch):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as zipped:
        zipped.writestr("little/corpus.jsonl", '{"_id": ')
        zipped.writestr("little/queries.jsonl", "")
    host.files["/little.zip"] = buffer.getvalue()
    monkeypatch.setattr(beir_hub, "ARCHIVES", {"little": hashlib.md5(buffer.getvalue()).hexdigest()})
    with pytest.raises(RagLabError, match=r"corpus\.jsonl:1: broken line"):
        load("little", mirror=host.address, cache=tmp_path / "kept")
    assert leftovers(tmp_path / "kept") == []


def test_something_in_the_way_is_not_overwritten(host, archive, tmp_path):
    target = tmp_path / "kept" / "little"
    target.mkdir(parents=True)
    (target / "notes.txt").write_text("mine")
    with pytest.raises(RagLabError, match="it is in the way and holds no dataset"):
        load("little", mirror=host.address, cache=tmp_path / "kept")
    assert (target / "notes.txt").read_text() == "mine"


def test_a_copy_that_was_there_first_stays(written, tmp_path):
    target, late = written("kept/mine", stated={"source": "first"}), written("late", stated={"source": "second"})
    keeping.publish(late, target)
    assert load(target).source == "first"


def test_the_handbook_that_comes_with_the_project():
    dataset = load("handbook")
    assert (dataset.rights, dataset.languages, dataset.licence) == ("declared", ["en", "zh"], "CC BY 4.0")
    assert dataset.not_measured() == {}
    assert dataset.integrity.warnings() == []
    assert any(gold.span for question in dataset.questions for gold in question.gold)
    assert dataset.calibration
    assert {q.query_id for q in dataset.calibration}.isdisjoint(q.query_id for q in dataset.questions)
    assert all(q.principal and q.time and q.group != "all" for q in dataset.questions)


def test_the_embedded_dataset_by_its_name(written, monkeypatch):
    folder = written("handbook")
    monkeypatch.setattr(embedded, "PLACES", (folder.parent / "absent", folder))
    assert load("handbook").name == "handbook"
    monkeypatch.setattr(embedded, "PLACES", (folder.parent / "absent",))
    with pytest.raises(RagLabError, match=r"absent \(absent or incomplete\)"):
        load("handbook")


def test_listings_name_every_source_once(written, monkeypatch, tmp_path):
    written("root/scifact")
    monkeypatch.setenv("RAG_LAB_DATA", str(tmp_path / "root"))
    found = {listing.name: listing for listing in available()}
    assert found["scifact"].kind == "folder"
    assert found["nfcorpus"].kind == "beir"
    assert found["squad2-dev"].kind == "hub"
    assert len(found) == len(available())
