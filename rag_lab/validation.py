"""A file of settings, and what pydantic finds wrong with settings, in one line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_lab.contracts import RagLabError

if TYPE_CHECKING:
    from pydantic import ValidationError

LONGEST_SHOWN = 60


def explain(error: ValidationError) -> str:
    """The first fault of a validation as ``field: what is wrong``."""
    first = max(error.errors(), key=lambda fault: len(fault["loc"]))
    field = ".".join(str(part) for part in first["loc"] if str(part) not in ("str", "float", "int"))
    if first["type"] == "extra_forbidden":
        return f"{field}: unknown field; remove it or check its spelling"
    if first["type"] == "missing":
        return f"{field}: missing; add it"
    shown = repr(first["input"])
    given = "" if isinstance(first["input"], Mapping) or len(shown) > LONGEST_SHOWN else f" (found {shown})"
    return f"{field}: {first['msg'][0].lower()}{first['msg'][1:]}{given}"


def read_yaml(path: Path, like: str = "experiments/quickstart.yaml") -> Mapping[str, Any]:
    """The fields of an experiment file. Errors name file, line and fix; `like` is a file to point to."""
    import yaml

    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise RagLabError(f"{path}: no such file; name an experiment file such as {like}") from error
    except IsADirectoryError as error:
        raise RagLabError(f"{path}: is a folder; name the experiment file in it") from error
    except (OSError, UnicodeDecodeError) as error:
        raise RagLabError(f"{path}: cannot be read ({error}); give a YAML file in UTF-8") from error
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a day that no month has
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}" if mark else ""
        raise RagLabError(f"{path}{line}: not YAML ({getattr(error, 'problem', error)})") from error
    if not isinstance(data, Mapping):
        raise RagLabError(f"{path}: must hold fields such as 'dataset' and 'variants'")
    return data
