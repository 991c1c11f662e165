"""A BEIR collection by name, through beir's own download, checked against the published checksum and kept."""

from __future__ import annotations

import hashlib
import json
import logging
import urllib.error
import urllib.request
import zipfile
from datetime import UTC, datetime
from pathlib import Path

from rag_lab.contracts import RagLabError, Unavailable
from rag_lab.datasets.beir_folder import STATED, read_folder
from rag_lab.datasets.collection import Collection
from rag_lab.datasets.keeping import by_hand, publish, working_folder
from rag_lab.datasets.options import Options

KIND = "beir"
ADDRESS = "https://public.ukp.informatik.tu-darmstadt.de/thakur/BEIR/datasets"
TIMEOUT_S = 30

# MD5 of each archive as BEIR publishes it. CQADupStack is left out: its archive holds twelve collections.
ARCHIVES = {
    "arguana": "8ad3e3c2a5867cdced806d6503f29b99",
    "climate-fever": "8b66f0a9126c521bae2bde127b4dc99d",
    "dbpedia-entity": "c2a39eb420a3164af735795df012ac2c",
    "fever": "5a818580227bfb4b35bb6fa46d9b6c03",
    "fiqa": "17918ed23cd04fb15047f73e6c3bd9d9",
    "hotpotqa": "f412724f78b0d91183a0e86805e16114",
    "msmarco": "444067daf65d982533ea17ebd59501e4",
    "nfcorpus": "a89dba18a62ef92f7d323ec890a0d38d",
    "nq": "d4d3d2e48787a744b6f6e691ff534307",
    "quora": "18fb154900ba42a600f84b839c173167",
    "scidocs": "38121350fc3a4d2f48850f6aff52e4a9",
    "scifact": "5f7d1de60b170fc8027bb7898e2efca1",
    "trec-covid": "ce62140cb23feb9becf6270d0d1fe6d1",
    "webis-touche2020": "46f650ba5a527fc69e0a6521c5a23563",
}


def read(name: str, options: Options, tried: list[str]) -> Collection | None:
    """Download, check, keep and read a collection of `ARCHIVES`; None for any other name."""
    if name not in ARCHIVES:
        tried.append("BEIR's archives (no such name)")
        return None
    address = (options.mirror or ADDRESS).rstrip("/")
    target = options.cache / name
    with working_folder(target) as work:
        folder = _download(name, f"{address}/{name}.zip", work, target)
        read_folder(folder, options, name)
        publish(folder, target)
    return read_folder(target, options, name)


def names(options: Options) -> dict[str, str]:
    """Collections that can be downloaded, each with its address."""
    address = (options.mirror or ADDRESS).rstrip("/")
    return {name: f"{address}/{name}.zip" for name in ARCHIVES}


def _download(name: str, url: str, work: Path, target: Path) -> Path:
    """The unpacked archive, with its address and checksums in ``dataset.json``."""
    _ask(url, name, target)
    from beir.util import download_and_unzip

    logging.getLogger("beir").setLevel(logging.WARNING)
    try:
        folder = Path(download_and_unzip(url, str(work)))
    except (OSError, zipfile.BadZipFile) as error:
        raise Unavailable(f"{url}: the download broke off ({error}); try again, {by_hand(name, target)}") from error
    archive = work / f"{name}.zip"
    checksums = _checksums(archive)
    if checksums["md5"] != ARCHIVES[name]:
        raise RagLabError(
            f"{url}: the archive has MD5 {checksums['md5']}, BEIR publishes {ARCHIVES[name]}; try again, "
            f"{by_hand(name, target)}"
        )
    if not folder.is_dir():
        raise RagLabError(f"{url}: the archive holds no folder {name}; use another mirror, {by_hand(name, target)}")
    stated = {"source": url, "bytes": archive.stat().st_size, "retrieved": f"{datetime.now(UTC):%Y-%m-%d}", **checksums}
    (folder / STATED).write_text(json.dumps(stated, indent=1), encoding="utf-8")
    return folder


def _ask(url: str, name: str, target: Path) -> None:
    """Fail early and readably when the host or the archive is not there: beir waits without end and checks nothing."""
    request = urllib.request.Request(url, method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S):
            return
    except urllib.error.HTTPError as error:
        problem = f"the host answers {error.code} {error.reason}"
    except (urllib.error.URLError, OSError, ValueError) as error:
        problem = f"the host cannot be reached ({getattr(error, 'reason', error)})"
    raise Unavailable(f"{url}: {problem}; try again later, {by_hand(name, target)}")


def _checksums(archive: Path) -> dict[str, str]:
    sums = {}
    for algorithm in ("md5", "sha256"):
        with archive.open("rb") as handle:
            sums[algorithm] = hashlib.file_digest(handle, algorithm).hexdigest()
    return sums
