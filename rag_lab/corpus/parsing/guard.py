"""Parse sources that nobody vouches for in child processes, under limits of time, memory and size.

A child is a fresh interpreter that imports the parsers and nothing else of ours; it is used for one source after the
other and replaced when it dies. Sources and results cross pipes as JSON and raw arrays, never as pickles: a parser that
a source has taken over cannot make its parent run anything, and what comes back is checked like input.
"""

from __future__ import annotations

import errno
import json
import mmap
import os
import resource
import struct
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any, TypeAlias

import numpy as np

from rag_lab.contracts import Block, BlockKind
from rag_lab.corpus.parsing import completed, read
from rag_lab.corpus.parsing.parsed import Parsed, ParseError

Source: TypeAlias = tuple[str, bytes | Path]

_MEGABYTE = 1 << 20
_LENGTH = struct.Struct("<Q")
_LONGEST_HEADER = 256 * _MEGABYTE
_ARRAYS = ("text", "original", "offsets")
_OUT_OF_MEMORY = "memory"
_ROOM = 16 * _MEGABYTE
_START_SECONDS = 60
_GROWTH = 16


@dataclass(frozen=True, slots=True)
class Limits:
    """What one source may take: seconds of time, megabytes of memory, megabytes of the file and of its own text."""

    seconds: float = 60
    memory_mb: int = 4096
    original_mb: int = 256


class _Late(Exception):
    """A child was killed because its time was over."""


class _Died(Exception):
    """A child ended before it answered; the text says how."""


def parse_guarded(
    sources: Iterable[Source], limits: Limits | None = None, *, workers: int = 1, keep_hidden: bool = False
) -> Iterator[tuple[str, Parsed | ParseError]]:
    """Parse (name, bytes or path) in order, `workers` at a time; each gives its result or the error that it met.

    A source that breaks a limit or its child costs nobody else anything. Only a few sources more than there are workers
    are taken from `sources` ahead of what was handed out.
    """
    limits = limits or Limits()
    children: SimpleQueue[_Child] = SimpleQueue()
    for _ in range(workers):
        children.put(_Child(limits))

    def work(source: Source) -> tuple[str, Parsed | ParseError]:
        child = children.get()
        try:
            return source[0], child.parse(source, keep_hidden)
        except ParseError as error:
            return source[0], error
        finally:
            children.put(child)

    waiting: deque[Future[tuple[str, Parsed | ParseError]]] = deque()
    pool = ThreadPoolExecutor(workers, thread_name_prefix="parse")
    try:
        for source in sources:
            waiting.append(pool.submit(work, source))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
        pool.shutdown()
        for _ in range(workers):
            children.get().stop()


class _Child:
    """A child process, started when it is needed."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._process: subprocess.Popen[bytes] | None = None
        self._used = False

    def parse(self, source: Source, keep_hidden: bool) -> Parsed:
        """One source. Raises `ParseError`, which names it and the limit."""
        name, content = source
        data = self._read(name, content)
        used, self._used = self._used, True
        try:
            answer, arrays = self._ask({"name": name, "keep_hidden": keep_hidden}, data)
            if answer.get("error") == _OUT_OF_MEMORY:
                self.stop()
                raise _Died("out of memory")
            return completed(_result(answer, arrays, name))
        except _Late:
            raise ParseError(
                f"{name}: parsing took longer than {self._limits.seconds:g} seconds; leave it out or raise the limit"
            ) from None
        except _Died as death:
            if used:
                # What earlier sources left behind in the process must not be held against this one.
                return self.parse(source, keep_hidden)
            raise ParseError(
                f"{name}: the parser died ({death}) under the limit of {self._limits.memory_mb} MB of memory; "
                "leave it out or raise the limit"
            ) from None
        except (KeyError, TypeError, ValueError, IndexError) as error:
            self.stop()
            raise ParseError(f"{name}: the parser's result is damaged ({error}); leave it out") from None

    def stop(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        self._used = False
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                # What a dead child did not read any more cannot be flushed.
                with suppress(OSError):
                    if pipe:
                        pipe.close()

    def _read(self, name: str, content: bytes | Path) -> bytes:
        limit = self._limits.original_mb
        try:
            size = len(content) if isinstance(content, bytes) else content.stat().st_size
            if size > limit * _MEGABYTE:
                raise ParseError(f"{name}: has {size / _MEGABYTE:.0f} MB, above the limit of {limit} MB; leave it out")
            return content if isinstance(content, bytes) else content.read_bytes()
        except OSError as error:
            raise ParseError(f"{name}: cannot be read ({error.strerror}); check the file") from None

    def _ask(self, header: dict[str, Any], data: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
        process = self._start()
        late = threading.Event()

        def end() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(self._limits.seconds, end)
        timer.start()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            _send(process.stdin, header, {"data": data})
            answer = _receive(process.stdout, self._limits.original_mb * _MEGABYTE * _GROWTH)
        except (OSError, EOFError, ValueError) as error:
            timer.cancel()
            timer.join()
            process.kill()
            status = process.wait()
            self.stop()
            if late.is_set():
                raise _Late from None
            if isinstance(error, ValueError):
                raise _Died(str(error)) from None
            raise _Died(f"signal {-status}" if status < 0 else f"exit status {status}") from None
        finally:
            timer.cancel()
        timer.join()
        if late.is_set():
            self.stop()
        return answer

    def _start(self) -> subprocess.Popen[bytes]:
        """The running process, or a new one that has said it is ready."""
        if self._process is not None:
            return self._process
        root = str(Path(__file__).resolve().parents[3])
        program = f"import sys; sys.path.insert(0, {root!r}); from rag_lab.corpus.parsing.guard import serve; serve()"
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR", "LD_LIBRARY_PATH") if name in os.environ}
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", program, json.dumps(asdict(self._limits))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**kept, **threads},
        )
        timer = threading.Timer(_START_SECONDS, process.kill)
        timer.start()
        try:
            assert process.stdout is not None
            _receive(process.stdout, _MEGABYTE)
        except (OSError, EOFError, ValueError):
            process.kill()
            process.wait()
            raise ParseError(
                f"{sys.executable}: a parsing process does not start; "
                "see why with python -c 'import rag_lab.corpus.parsing.guard'"
            ) from None
        finally:
            timer.cancel()
        self._process = process
        return process


# --- messages: a JSON header with the lengths of the arrays after it --------------------------------------------------


def _send(pipe: IO[bytes], header: dict[str, Any], arrays: dict[str, bytes]) -> None:
    lengths = {name: len(content) for name, content in arrays.items()}
    encoded = json.dumps({"lengths": lengths, **header}, default=lambda number: number.item()).encode()
    pipe.write(_LENGTH.pack(len(encoded)) + encoded)
    for content in arrays.values():
        pipe.write(content)
    pipe.flush()


def _receive(pipe: IO[bytes], longest: int) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Raises `EOFError` when the other side is gone, `ValueError` for a message that is damaged or too long."""
    length = _LENGTH.unpack(_exactly(pipe, _LENGTH.size))[0]
    if length > _LONGEST_HEADER:
        raise ValueError("its answer is too long")
    header = json.loads(_exactly(pipe, length))
    lengths = header.get("lengths") if isinstance(header, dict) else None
    if not isinstance(lengths, dict) or not all(isinstance(n, int) and n >= 0 for n in lengths.values()):
        raise ValueError("its answer is damaged")
    if sum(lengths.values()) > longest:
        raise ValueError("its answer is too long")
    return header, {str(name): _exactly(pipe, n) for name, n in lengths.items()}


def _exactly(pipe: IO[bytes], length: int) -> bytes:
    content = pipe.read(length)
    if len(content) < length:
        raise EOFError
    return content


# --- the child --------------------------------------------------------------------------------------------------------


def serve() -> None:
    """Main loop of a child: limits from the command line, sources from standard input, results to standard output."""
    limits = Limits(**json.loads(sys.argv[1]))
    source = os.fdopen(os.dup(0), "rb")
    sink = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    resource.setrlimit(resource.RLIMIT_AS, (limits.memory_mb * _MEGABYTE,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    _send(sink, {"ready": True}, {})
    while True:
        try:
            header, arrays = _receive(source, sys.maxsize)
        except EOFError:
            return
        except MemoryError:
            _send(sink, {"error": _OUT_OF_MEMORY}, {})
            return
        _limit_processor(limits.seconds)
        answer, results = _answer(header, arrays.pop("data"), limits)
        _send(sink, answer, results)


def _limit_processor(seconds: float) -> None:
    """End a child that goes on computing although its parent is gone."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime + seconds) + 2
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _answer(header: dict[str, Any], data: bytes, limits: Limits) -> tuple[dict[str, Any], dict[str, bytes]]:
    name = header["name"]
    try:
        parsed = read(data, name, keep_hidden=header["keep_hidden"])
        if len(parsed.original) > limits.original_mb * _MEGABYTE:
            size = len(parsed.original) / _MEGABYTE
            return {"error": f"{name}: holds {size:.0f} MB of text, above the limit of {limits.original_mb} MB"}, {}
        return _message(parsed)
    except ParseError as error:
        return {"error": str(error)}, {}
    except MemoryError:
        return {"error": _OUT_OF_MEMORY}, {}
    except RecursionError:
        return {"error": f"{name}: is nested too deeply to be parsed; leave it out"}, {}
    except Exception as error:  # noqa: BLE001 - whatever a hostile source leads to is an error of that source
        if getattr(error, "errno", None) == errno.ENOMEM or not _has_room():
            return {"error": _OUT_OF_MEMORY}, {}
        return {"error": f"{name}: the parser failed ({type(error).__name__}: {error}); leave it out"}, {}


def _has_room() -> bool:
    """Whether some memory can be had. Where none can, not everything that fails for lack of it says so."""
    try:
        mmap.mmap(-1, _ROOM).close()
    except OSError:
        return False
    return True


def _message(parsed: Parsed) -> tuple[dict[str, Any], dict[str, bytes]]:
    header = {field.name: getattr(parsed, field.name) for field in fields(Parsed) if field.name not in _ARRAYS}
    paths: dict[tuple[str, ...], int] = {}
    header["blocks"] = [
        (block.kind, block.span, paths.setdefault(block.section_path, len(paths)), block.level, block.page, block.lead)
        for block in parsed.blocks
    ]
    header["paths"] = list(paths)
    header["metadata"] = dict(parsed.metadata)
    header["removed"] = dict(parsed.removed)
    return header, {
        "text": parsed.text.encode(),
        "original": parsed.original.encode("utf-8", "surrogatepass"),
        "offsets": parsed.offsets.astype("<i4").tobytes(),
    }


def _result(header: dict[str, Any], arrays: dict[str, bytes], name: str) -> Parsed:
    """The parsed source of a message, or its error. Raises `ValueError` or its like for one that cannot be right."""
    if "error" in header:
        error = " ".join(str(header["error"]).split())
        raise ParseError(error if name in error else f"{name}: {error}")
    text = arrays["text"].decode()
    original = arrays["original"].decode("utf-8", "surrogatepass")
    offsets = np.frombuffer(arrays["offsets"], dtype="<i4").astype(np.int32)
    if len(offsets) != len(text) + 1 or offsets.min() < 0 or offsets.max() > len(original):
        raise ValueError("offsets do not fit")
    paths = [tuple(map(str, path)) for path in header["paths"]]
    blocks = tuple(
        Block(BlockKind(kind), _span(span), paths[path], int(level), int(page), lead and _span(lead))
        for kind, span, path, level, page, lead in header["blocks"]
    )
    edges = [edge for block in blocks for edge in block.span]
    if edges != sorted(edges) or (edges and not 0 <= edges[0] <= edges[-1] <= len(text)):
        raise ValueError("blocks do not fit")
    return Parsed(
        text,
        blocks,
        original,
        offsets,
        str(header["parser"]),
        title=str(header["title"]),
        language=str(header["language"]),
        metadata=dict(header["metadata"]),
        removed={str(reason): int(count) for reason, count in header["removed"].items()},
        hidden=tuple(map(str, header["hidden"])),
        notes=tuple(map(str, header["notes"])),
    )


def _span(value: Any) -> tuple[int, int]:
    start, end = value
    return int(start), int(end)
