"""Text for people: what strangers wrote made harmless to look at (names, reasons), and plurals."""

from __future__ import annotations

import unicodedata

MISLEADING = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
"""Unicode categories that act on a terminal or a page: control characters (escape sequences), format
characters (direction marks, zero width), lone surrogates, line and paragraph separators."""


def visible(value: object, limit: int | None = None, keep: str = "") -> str:
    r"""`value` as text in which nothing acts: ESC becomes \u001b, a right-to-left override \u202e.

    With a `limit` at most that many characters of it are shown and a cut is marked with an ellipsis.
    Characters in `keep` stay as they are, for instance the line ends of a message of our own.
    """
    text = str(value)
    cut = limit is not None and len(text) > limit
    text = text[:limit] if cut else text
    if not (text.isascii() and text.isprintable()):
        text = "".join(c if c in keep else _shown(c) for c in text)
    return text + "…" if cut else text


def count(value: int, one: str) -> str:
    """1 round, 2 rounds."""
    return f"{value:,} {one}" if value == 1 else f"{value:,} {one}s"


def hours_text(hours: float) -> str:
    """A span, in the unit that fits it."""
    return f"{hours * 60:.0f} minutes" if hours < 2 else f"{hours:.0f} hours"


def _shown(character: str) -> str:
    if unicodedata.category(character) not in MISLEADING:
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
