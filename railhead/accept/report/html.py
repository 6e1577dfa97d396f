"""HTML as a tree of elements that is written at once, so that text is escaped by construction.

The standard library's ElementTree writes it. What a reader cannot see, such as control characters
and marks that turn the direction of text, is shown by its name: a page that ends an argument may
not read otherwise than it is.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from xml.etree.ElementTree import Element, tostring

Child = Element | str | None


def el(tag: str, attributes: dict[str, str] | None = None, *children: Child) -> Element:
    """Return an element; texts among ``children`` are escaped when written, None is left out."""
    made = Element(tag, {key: visible(value) for key, value in (attributes or {}).items()})
    last: Element | None = None
    for child in children:
        if child is None:
            continue
        if isinstance(child, Element):
            made.append(child)
            last = child
        elif last is None:
            made.text = (made.text or "") + visible(child)
        else:
            last.tail = (last.tail or "") + visible(child)
    return made


def write(root: Element) -> str:
    """Return the whole document; the one element without an end that it may have is ``meta``."""
    # As XML, which escapes `<` in attributes too, and ends every element but that one as HTML does.
    text = tostring(root, encoding="unicode", short_empty_elements=False)
    return "<!DOCTYPE html>\n" + text.replace("></meta>", ">") + "\n"


def visible(text: str) -> str:
    """Return the text with every invisible or hiding character named in its place."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_shown, text))


@cache
def _shown(char: str) -> str:
    if char in "\n\t":
        return char
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    # Control, format, surrogate, private and unassigned, and line ends that are no newline.
    if unicodedata.category(char) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}:
        return f"\u27e8U+{code:04X}\u27e9"
    return char
