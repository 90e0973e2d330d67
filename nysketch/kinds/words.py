"""Values of categories in a line of words: short, printable, in quotes where they would not read as one."""

from __future__ import annotations

_SEPARATORS = set(",;='\"")


def in_words(value: str, most: int = 30) -> str:
    """Return a value in at most about so many characters, escaped and in quotes unless it is a plain word."""
    text = value if len(value) <= most else value[: most - 1] + "…"
    plain = text and text.isprintable() and text == text.strip() and not set(text) & _SEPARATORS
    return text if plain else repr(text)
