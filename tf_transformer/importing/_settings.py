"""Settings of external models: JSON and YAML files, read within limits of size, depth and digits."""

import itertools
import json
import math
import pathlib
import re
import reprlib
from typing import Any, ClassVar

import yaml

from tf_transformer.importing._external_model import ImportedModelError
from tf_transformer.importing._files_read import record_file

MAX_TEXT_BYTES = 32 * 2**20
"""The largest JSON file or vocabulary; that of NLLB-200, with 256,000 tokens, has 5 MB."""
MAX_YAML_BYTES = 256 * 2**10
MAX_DEPTH = 32
# Hugging Face writes int(1e30) for "no limit".
MAX_DIGITS = 40
_HEAD_BYTES = 64 * 2**10
_NESTED = f"values nested deeper than {MAX_DEPTH} levels"

_short = reprlib.Repr()
_short.maxlevel, _short.maxstring, _short.maxother, _short.maxlong = 3, 80, 80, MAX_DIGITS


def show(value: object) -> str:
    """A `repr` of at most a few hundred characters, for error messages."""
    return _short.repr(value)[:300]


def shorten(error: BaseException) -> str:
    """The first line of an exception of another library, at most 200 characters."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]


def read_bytes(file: pathlib.Path, limit: int) -> bytes:
    """The contents of a regular file of at most `limit` bytes."""
    if not file.is_file():
        raise ImportedModelError(f"{file.parent}: expected {file.name}. Received: a folder without it. Get the file.")
    record_file(file)
    try:
        with file.open("rb") as opened:
            data = opened.read(limit + 1)
    except OSError as error:
        raise ImportedModelError(f"{file}: expected a file that can be read. Received: {shorten(error)}.") from None
    if len(data) > limit:
        raise ImportedModelError(f"{file}: expected at most {limit:,} bytes. Received: {file.stat().st_size:,} bytes.")
    return data


def first_lines(file: pathlib.Path) -> list[str]:
    """The lines in the first 64 KB of a README or LICENSE; none if there is no such file."""
    if not file.is_file():
        return []
    record_file(file)
    try:
        with file.open("rb") as opened:
            return opened.read(_HEAD_BYTES).decode("utf-8", "replace").splitlines()
    except OSError as error:
        raise ImportedModelError(f"{file}: expected a file that can be read. Received: {shorten(error)}.") from None


def read_json(file: pathlib.Path, kind: type = dict) -> Any:
    """The value of a JSON file, which must be of type `kind`."""
    data = read_bytes(file, MAX_TEXT_BYTES)
    try:
        values = json.loads(data, parse_int=_integer, parse_float=_finite, parse_constant=_finite)
        _check_values(values)
    except RecursionError:
        raise ImportedModelError(f"{file}: expected JSON. Received: {_NESTED}. Get the file again.") from None
    except ValueError as error:
        raise ImportedModelError(f"{file}: expected JSON. Received: {shorten(error)}. Get the file again.") from None
    if not isinstance(values, kind):
        raise ImportedModelError(f"{file}: expected {kind.__name__}. Received: {type(values).__name__}.")
    return values


def language_code(value: object) -> str | None:
    """A language as a file states it; None where it states none, or something else than a short word."""
    return value if isinstance(value, str) and 0 < len(value) <= 40 and value.isprintable() else None


def parse_yaml(data: bytes, name: str) -> dict:
    """The mapping in a YAML text of plain values: no aliases, merge keys or tags.

    Args:
        name: what error messages call the text: its file.
    """
    if len(data) > MAX_YAML_BYTES:
        raise ImportedModelError(f"{name}: expected at most {MAX_YAML_BYTES:,} bytes. Received: {len(data):,} bytes.")
    try:
        text = data.decode("utf-8")
        _check_events(text)
        values = yaml.load(text, Loader=_PlainLoader)
        _check_values(values)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ImportedModelError(f"{name}: expected YAML. Received: {shorten(error)}. Get the file again.") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ImportedModelError(f"{name}: expected a YAML mapping. Received: {type(values).__name__}.")
    return values


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number of {len(digits):,} digits")
    return int(digits)


def _finite(digits: str) -> float:
    if len(digits) > 1000 or not math.isfinite(value := float(digits)):
        raise ValueError(f"a number that is not finite, {digits[:40]}")
    return value


def _check_values(values: object) -> None:
    """Raise ValueError for deep nesting and for strings that are not Unicode text (lone surrogates)."""
    stack = [iter((values,))]
    while stack:
        for value in stack[-1]:
            if isinstance(value, str):
                value.encode("utf-8")
            elif isinstance(value, dict | list) and value:
                if len(stack) >= MAX_DEPTH:
                    raise ValueError(_NESTED)
                stack.append(iter(value) if isinstance(value, list) else itertools.chain(value, value.values()))
                break
        else:
            stack.pop()


def _check_events(text: str) -> None:
    """Raise ValueError for the parts of YAML that expand or construct: aliases, merge keys, tags, deep nesting."""
    depth = 0
    for event in yaml.parse(text, Loader=_PlainLoader):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise ValueError("an anchor or alias")
        if getattr(event, "tag", None):
            raise ValueError("a tag")
        if isinstance(event, yaml.ScalarEvent) and event.value == "<<":
            raise ValueError("a merge key")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise ValueError(_NESTED)


class _PlainLoader(yaml.SafeLoader):
    """YAML scalars as null, booleans, decimal numbers or strings; no dates, sexagesimal or binary numbers."""

    yaml_implicit_resolvers: ClassVar[dict] = {}

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        return _integer(self.construct_scalar(node))

    def construct_yaml_float(self, node: yaml.ScalarNode) -> float:
        return _finite(self.construct_scalar(node))


def _add_scalar(kind: str, pattern: str, first: str) -> None:
    tag = f"tag:yaml.org,2002:{kind}"
    _PlainLoader.add_implicit_resolver(tag, re.compile(f"^(?:{pattern})$"), list(first))
    _PlainLoader.add_constructor(tag, getattr(_PlainLoader, f"construct_yaml_{kind}"))


_add_scalar("null", "~|null|Null|NULL", "~nN")
_add_scalar("bool", "yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF", "yYnNtTfFoO")
_add_scalar("int", r"[-+]?[0-9]+", "-+0123456789")
_add_scalar("float", r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?", "-+.0123456789")
