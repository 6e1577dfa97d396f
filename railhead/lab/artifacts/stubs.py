"""A library in place of those of a GPU vendor, for a machine without GPUs.

The registry's PyTorch is linked against two gigabytes of CUDA, of which a run on CPU calls one
function: how many devices there are. The dynamic linker wants a file of each name and a symbol of
each name, so this writes one small library that has them; each function of it returns the code
of "no device", with which PyTorch goes on as it does on any machine without one.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

#: cudaErrorNoDevice and CUDA_ERROR_NO_DEVICE: 100 in both APIs since CUDA 3.
_NO_DEVICE = 100
#: ``e_machine`` -> `return 100`, in that machine's code.
_RETURN = {
    62: b"\xb8" + struct.pack("<I", _NO_DEVICE) + b"\xc3",
    183: struct.pack("<II", 0x52800000 | _NO_DEVICE << 5, 0xD65F03C0),
}
#: What names CUDA's libraries, and the C functions in them; frameworks' own begin otherwise.
_LIBRARY = re.compile(r"lib(cu|nv|nccl)\w*\.so\.\d+")
_FUNCTION = re.compile(r"_*(cu|nv|nccl)[A-Za-z0-9_]+")

_DYNAMIC, _DYNSYM, _VERNEED = 6, 11, 0x6FFFFFFE
_NEEDED = 1
_PAGE = 0x1000


@dataclass(frozen=True, kw_only=True)
class Linked:
    """The needs of a shared library: other libraries, versions, and symbols that it lacks.

    ``versions`` are pairs of a library and a version of its interface.
    """

    machine: int
    needed: frozenset[str]
    versions: frozenset[tuple[str, str]]
    undefined: frozenset[str]
    defined: frozenset[str]


def read(path: Path) -> Linked:
    """Return an ELF64 library's needs (System V ABI, chapters 4 and 5; LSB, symbol versioning)."""
    data = path.read_bytes()
    machine = struct.unpack_from("<H", data, 18)[0]
    offset, size, count = (
        struct.unpack_from("<Q", data, 40)[0],
        *struct.unpack_from("<HH", data, 58),
    )
    # name, type, flags, address, offset, size, link, info, alignment, entry size
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size) for i in range(count)]

    def text(section: tuple[int, ...], at: int) -> str:
        start = sections[section[6]][4] + at
        return data[start : data.index(b"\0", start)].decode()

    needed: set[str] = set()
    undefined: set[str] = set()
    defined: set[str] = set()
    versions: set[tuple[str, str]] = set()
    for section in sections:
        entries = range(section[4], section[4] + section[5], section[9] or 1)
        if section[1] == _DYNAMIC:
            pairs = (struct.unpack_from("<QQ", data, at) for at in entries)
            needed |= {text(section, value) for tag, value in pairs if tag == _NEEDED}
        elif section[1] == _DYNSYM:
            for at in entries:
                name, _info, _other, where = struct.unpack_from("<IBBH", data, at)
                (defined if where else undefined).add(text(section, name))
        elif section[1] == _VERNEED:
            at, more = section[4], 1
            while more:
                _version, entry_count, file, inner, more = struct.unpack_from("<HHIII", data, at)
                item = at + inner
                for _ in range(entry_count):
                    _hash, _flags, _index, name, following = struct.unpack_from(
                        "<IHHII", data, item
                    )
                    versions.add((text(section, file), text(section, name)))
                    item += following
                at += more
    return Linked(
        machine=machine,
        needed=frozenset(needed),
        versions=frozenset(versions),
        undefined=frozenset(undefined),
        defined=frozenset(defined),
    )


def library(machine: int, symbols: Iterable[str], versions: Iterable[str] = ()) -> bytes:
    """Return an ELF64 shared library whose ``symbols`` are functions that say "no device".

    Every symbol is of the base version, which the linker takes for any of ``versions``.

    Raises:
        KeyError: ``machine`` is neither x86-64 (62) nor arm64 (183).
    """
    code = _RETURN[machine]
    names = sorted(symbols)
    of_base = ["libno_device.so", *sorted(versions)]
    strings, places = b"\0", {}
    for name in (*names, *of_base):
        places[name] = len(strings)
        strings += name.encode() + b"\0"
    count = len(names) + 1
    # The header and three program headers, then one table after the other.
    at_symbols = 64 + 3 * 56
    at_hash = at_symbols + 24 * count
    at_index = at_hash + 4 * (2 + 1 + count)
    at_versions = _up(at_index + 2 * count, 8)
    at_strings = at_versions + 28 * len(of_base)
    at_code = _up(at_strings + len(strings), 16)
    at_dynamic = _up(at_code + len(code), _PAGE)
    # Global functions of section 1, which is never read.
    table = b"\0" * 24 + b"".join(
        struct.pack("<IBBHQQ", places[name], 0x12, 0, 1, at_code, len(code)) for name in names
    )
    # One bucket: a chain through all of them.
    chain = [0, *range(2, count), 0][:count]
    hashed = struct.pack(f"<III{count}I", 1, count, 1 if names else 0, *chain)
    index = struct.pack(f"<{count}H", 0, *[1] * (count - 1))
    defined = b"".join(
        struct.pack(
            "<HHHHIIIII",
            *(1, 1 if number == 1 else 0, number, 1, _hash(name), 20),
            *(28 if number < len(of_base) else 0, places[name], 0),
        )
        for number, name in enumerate(of_base, start=1)
    )
    entries = (
        (4, at_hash),
        (5, at_strings),
        (6, at_symbols),
        (10, len(strings)),
        (11, 24),
        (0x6FFFFFF0, at_index),
        (0x6FFFFFFC, at_versions),
        (0x6FFFFFFD, len(of_base)),
        (0, 0),
    )
    dynamic = b"".join(struct.pack("<QQ", tag, value) for tag, value in entries)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\x02\x01\x01",
        *(3, machine, 1, 0, 64, 0, 0, 64, 56, 3, 64, 0, 0),
    )
    segments = b"".join(
        struct.pack("<IIQQQQQQ", kind, flags, start, start, start, length, length, align)
        for kind, flags, start, length, align in (
            (1, 5, 0, at_code + len(code), _PAGE),
            (1, 6, at_dynamic, len(dynamic), _PAGE),
            (2, 6, at_dynamic, len(dynamic), 8),
        )
    )
    body = (header + segments + table + hashed + index).ljust(at_versions, b"\0")
    body = (body + defined + strings).ljust(at_code, b"\0") + code
    return body.ljust(at_dynamic, b"\0") + dynamic


def _hash(name: str) -> int:
    """Return the System V ABI's hash of a name."""
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ high >> 24) & ~high & 0xFFFFFFFF
    return value


def _up(value: int, step: int) -> int:
    return -(-value // step) * step


def stand_in(directory: Path) -> tuple[str, ...]:
    """Put the library into ``directory`` under each name that its libraries miss; returns them.

    Where none of them asks for CUDA, as in wheels for arm64, it does nothing.
    """
    results = [read(path) for path in sorted(directory.glob("*.so"))]
    missing = {
        name
        for item in results
        for name in item.needed
        if _LIBRARY.fullmatch(name) and not (directory / name).exists()
    }
    if not missing:
        return ()
    defined = frozenset[str]().union(*(item.defined for item in results))
    asked = frozenset[str]().union(*(item.undefined for item in results)) - defined
    functions = {name for name in asked if _FUNCTION.fullmatch(name)}
    target = directory / "libno_device.so"
    versions = {version for item in results for name, version in item.versions if name in missing}
    target.write_bytes(library(results[0].machine, functions, versions))
    for name in sorted(missing):
        (directory / name).symlink_to(target.name)
    return tuple(sorted(missing))
