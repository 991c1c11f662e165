"""Which number type encodes passages fastest on this processor."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

Precision = Literal["float32", "bfloat16"]


@cache
def fast_precision() -> tuple[Precision, str]:
    """The precision for passages, and why: for example ``("bfloat16", "AVX512-BF16")``. Loads no model and no torch.

    bfloat16 is emulated, and slower than float32, where the processor lacks instructions for it.
    """
    flags = cpu_flags()
    for flag, reason in (("amx_bf16", "AMX"), ("avx512_bf16", "AVX512-BF16")):
        if flag in flags:
            return "bfloat16", reason
    return "float32", "no AMX or AVX512-BF16 on this processor" if flags else "processor flags are not readable here"


def cpu_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """What Linux says the processor can do; empty where that cannot be read."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line.partition(":")[2] for line in lines if line.startswith("flags")), "").split())
