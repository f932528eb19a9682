"""Decoding of files into records, with every fault named at once."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import inspect

from anvil_tui.errors import BadInput, Fault, nearest

T = TypeVar("T")


def decode_toml(record: type[T], raw: bytes, source: str, *, closed: bool = False) -> T:
    """Decode the bytes of a TOML file into `record`. Raises BadInput that names `source` and every fault.

    `closed` refuses unknown keys at every depth, also in records that take them where we wrote the file ourselves.
    """
    try:
        data = tomllib.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise BadInput(source, Fault(f"byte {error.start}", "not UTF-8 text", "TOML 1.0 in UTF-8")) from None
    except tomllib.TOMLDecodeError as error:
        raise BadInput(source, Fault("syntax", str(error), "TOML 1.0")) from None
    return convert(record, data, source, closed=closed)


def decode_json(record: type[T], raw: bytes, source: str) -> T:
    """Decode the bytes of a JSON file into `record`. Raises BadInput that names `source` and every fault."""
    try:
        data = json.loads(raw)
    except (UnicodeDecodeError, ValueError) as error:
        raise BadInput(source, Fault("syntax", str(error), "JSON")) from None
    return convert(record, data, source)


def convert(record: type[T], data: object, source: str, *, closed: bool = False) -> T:
    """Turn plain `data` into `record`. Raises BadInput with one Fault for each thing that is wrong."""
    faults = tuple(_faults(inspect.type_info(record), data, "", closed))
    if faults:
        raise BadInput(source, *faults)
    try:
        return msgspec.convert(data, record)
    except msgspec.ValidationError as error:
        raise BadInput(source, Fault("record", str(error))) from None


def read_toml(record: type[T], path: Path) -> T:
    """Read and decode a TOML file. Raises BadInput, also where it cannot be read."""
    return decode_toml(record, read_bytes(path), str(path))


def read_bytes(path: Path) -> bytes:
    """The bytes of an input file. Raises BadInput that names the file and says why it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(str(path), Fault("file", error.strerror or str(error), "a readable file")) from None


def _faults(kind: inspect.Type, value: object, place: str, closed: bool) -> Iterator[Fault]:
    """Walk `value` beside the type it should have and yield what is wrong, all of it."""
    match kind:
        case inspect.Metadata(type=inner):
            yield from _faults(inner, value, place, closed)
        case inspect.StructType():
            yield from _struct_faults(kind, value, place, closed)
        case inspect.UnionType(types=types):
            yield from _union_faults(types, value, place, closed)
        case inspect.DictType(value_type=inner):
            if not isinstance(value, Mapping):
                yield Fault(place, _shown(value), "a table")
                return
            for key, item in value.items():
                yield from _faults(inner, item, _join(place, str(key)), closed)
        case inspect.VarTupleType(item_type=inner, min_length=least):
            if not isinstance(value, list) or len(value) < (least or 0):
                yield Fault(place, _shown(value), _words(kind))
                return
            for index, item in enumerate(value):
                yield from _faults(inner, item, f"{place}[{index}]", closed)
        case inspect.LiteralType(values=values):
            if value not in values or isinstance(value, bool):
                words = [str(one) for one in values]
                yield Fault(place, _shown(value), ", ".join(words), nearest(str(value), words))
        case inspect.AnyType() | inspect.RawType():
            return
        case _:
            try:
                msgspec.convert(value, _plain(kind))
            except msgspec.ValidationError:
                yield Fault(place, _shown(value), _words(kind))


def _struct_faults(kind: inspect.StructType, value: object, place: str, closed: bool) -> Iterator[Fault]:
    if not isinstance(value, Mapping):
        yield Fault(place or "file", _shown(value), "a table")
        return
    fields = {field.encode_name: field for field in kind.fields}
    allowed = [*fields, *([kind.tag_field] if kind.tag_field else [])]
    if closed or kind.forbid_unknown_fields:
        for key in value:
            if key not in allowed:
                yield Fault(
                    _join(place, str(key)), "unknown key", ", ".join(sorted(allowed)), nearest(str(key), allowed)
                )
    for name, field in fields.items():
        if name in value:
            yield from _faults(field.type, value[name], _join(place, name), closed)
        elif field.required:
            yield Fault(_join(place, name), "missing", _words(field.type))


def _union_faults(types: tuple[inspect.Type, ...], value: object, place: str, closed: bool) -> Iterator[Fault]:
    if value is None and any(isinstance(one, inspect.NoneType) for one in types):
        return
    structs = [one for one in types if isinstance(one, inspect.StructType)]
    if len(structs) > 1 and isinstance(value, Mapping):
        tag_field = structs[0].tag_field or "type"
        by_tag = {str(one.tag): one for one in structs}
        tag = value.get(tag_field)
        if isinstance(tag, str) and tag in by_tag:
            yield from _struct_faults(by_tag[tag], value, place, closed)
        else:
            found = "missing" if tag is None else _shown(tag)
            yield Fault(_join(place, tag_field), found, ", ".join(by_tag), nearest(str(tag), by_tag))
        return
    attempts = [list(_faults(one, value, place, closed)) for one in types if not isinstance(one, inspect.NoneType)]
    if not attempts or any(not faults for faults in attempts):
        return
    deepest = max(attempts, key=lambda faults: max(len(fault.place) for fault in faults))
    if any(fault.place != place for fault in deepest):
        yield from deepest
        return
    allowed = dict.fromkeys(fault.allowed for faults in attempts for fault in faults)
    close = next((fault.nearest for faults in attempts for fault in faults if fault.nearest), "")
    yield Fault(place, _shown(value), " or ".join(allowed), close)


def _plain(kind: inspect.Type) -> Any:
    """The Python type of a scalar, its constraints included, so that msgspec itself judges it."""
    match kind:
        case inspect.IntType(gt=gt, ge=ge, lt=lt, le=le):
            return _constrained(int, gt=gt, ge=ge, lt=lt, le=le)
        case inspect.FloatType(gt=gt, ge=ge, lt=lt, le=le):
            return _constrained(float, gt=gt, ge=ge, lt=lt, le=le)
        case inspect.StrType(min_length=low, max_length=high, pattern=pattern):
            return _constrained(str, min_length=low, max_length=high, pattern=pattern)
        case inspect.BoolType():
            return bool
        case inspect.NoneType():
            return None
    raise TypeError(f"records use no {kind!r}")


def _constrained(scalar: type, **limits: object) -> Any:
    given: dict[str, Any] = {name: limit for name, limit in limits.items() if limit is not None}
    return Annotated[scalar, msgspec.Meta(**given)] if given else scalar


def _words(kind: inspect.Type) -> str:
    """What a value of this type looks like, in words."""
    match kind:
        case inspect.Metadata(type=inner):
            return _words(inner)
        case inspect.IntType(gt=gt, ge=ge, lt=lt, le=le):
            return "a whole number" + _range(gt, ge, lt, le)
        case inspect.FloatType(gt=gt, ge=ge, lt=lt, le=le):
            return "a number" + _range(gt, ge, lt, le)
        case inspect.StrType(pattern=pattern, min_length=low):
            return f"text that matches {pattern}" if pattern else "text that is not empty" if low else "text"
        case inspect.BoolType():
            return "true or false"
        case inspect.LiteralType(values=values):
            return ", ".join(str(one) for one in values)
        case inspect.UnionType(types=types):
            return " or ".join(_words(one) for one in types if not isinstance(one, inspect.NoneType))
        case inspect.VarTupleType(item_type=inner, min_length=least):
            return ("a list that is not empty, of " if least else "a list of ") + _words(inner)
        case inspect.StructType() | inspect.DictType():
            return "a table"
    return "a value"


def _range(gt: float | None, ge: float | None, lt: float | None, le: float | None) -> str:
    low = f" above {gt:g}" if gt is not None else f" from {ge:g}" if ge is not None else ""
    high = f" below {lt:g}" if lt is not None else f" up to {le:g}" if le is not None else ""
    return low + high


def _join(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key


def _shown(value: object) -> str:
    words = repr(value)
    return words if len(words) <= 80 else words[:77] + "…"
