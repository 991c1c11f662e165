"""Fonts that come with packages, so that a report looks the same on every machine.

Latin, Greek and Cyrillic come with typst and matplotlib (DejaVu, which also has Arabic and Hebrew); Chinese with
`pylopdf-fonts-zh-cn` (Noto Sans SC and Noto Serif SC, SIL Open Font License 1.1). No system font is used.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

SANS = "Noto Sans SC"


@lru_cache(maxsize=1)
def chinese_sans() -> Path | None:
    """The Chinese font's file, or None when its package is missing."""
    try:
        from pylopdf_fonts_zh_cn import sans_path
    except ImportError:
        return None
    path = Path(sans_path())
    return path if path.is_file() else None


@lru_cache(maxsize=1)
def dejavu_folder() -> Path:
    """The folder of matplotlib's own fonts."""
    import matplotlib

    return Path(matplotlib.get_data_path()) / "fonts" / "ttf"


def folders() -> list[Path]:
    """Folders with fonts for the PDF, the same on every machine."""
    chinese = chinese_sans()
    return [dejavu_folder(), *([chinese.parent] if chinese else [])]


def missing_glyphs(text: str) -> str:
    """The characters of a text, sorted, for which none of the fonts has a glyph."""
    from matplotlib.ft2font import FT2Font

    wanted = {c for c in text if ord(c) > 0x024F and not c.isspace()}
    if not wanted:
        return ""
    files = [dejavu_folder() / "DejaVuSans.ttf", chinese_sans()]
    for file in files:
        if file is not None:
            charmap = FT2Font(str(file)).get_charmap()
            wanted = {c for c in wanted if ord(c) not in charmap}
    return "".join(sorted(c for c in wanted if c not in "\u200b\ufe0e\ufe0f"))
