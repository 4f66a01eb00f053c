"""Dataclasses whose fields are checked: types, unknown keys, JSON round trip, `field=value` overrides."""

import dataclasses
import math
import reprlib
import types
import typing
from typing import Any, ClassVar, Self, cast


class ConfigError(ValueError):
    """A configuration that cannot be: the message names the field."""


class TypedFields:
    """Base of frozen dataclasses with fields of plain types (int, float, bool, str, Literal, or None).

    A subclass gives the largest value of its numbers in `largest`, and checks what types cannot say in `validate`, with
    `self.require`.
    """

    largest: ClassVar[dict[str, float]] = {}
    """Upper bounds of fields by name: far above what is useful, far below what overflows or exhausts the memory."""

    def __post_init__(self) -> None:
        for name, annotation in self._types().items():
            object.__setattr__(self, name, _checked(self._where(name), annotation, getattr(self, name)))
        for name, bound in self.largest.items():
            value = getattr(self, name)
            self.require(name, value is None or value <= bound, f"at most {bound:,}")
        self.validate()

    def validate(self) -> None:
        """Raise ConfigError when fields have values that cannot be."""

    def require(self, field: str, holds: bool, expected: str) -> None:
        if not holds:
            value = reprlib.repr(getattr(self, field))
            raise ConfigError(f"{self._where(field)} must be {expected}. Received: {value}.")

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(cast(Any, self))

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The inverse of `to_dict`; keys that do not exist are rejected, missing ones take their defaults."""
        return cls(**{key: _built(cls._type(key), value) for key, value in values.items()})

    @classmethod
    def parse(cls, field: str, text: str) -> Any:
        """The value that `text`, from a command line, means for `field`."""
        return _parsed(cls._where(field), cls._type(field), text)

    @classmethod
    def _types(cls) -> dict[str, Any]:
        hints = typing.get_type_hints(cls)
        return {field.name: hints[field.name] for field in dataclasses.fields(cast(Any, cls))}

    @classmethod
    def _type(cls, field: str) -> Any:
        types_by_name = cls._types()
        if field not in types_by_name:
            section = getattr(cls, "section", cls.__name__)
            raise ConfigError(
                f"Expected a field of {section}: {', '.join(types_by_name)}. Received: {cls._where(field[:100])}."
            )
        return types_by_name[field]

    @classmethod
    def _where(cls, field: str) -> str:
        return f"{getattr(cls, 'section', cls.__name__)}.{field}"


def _alternatives(annotation: Any) -> tuple:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return typing.get_args(annotation)
    return (annotation,)


def _built(annotation: Any, value: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, TypedFields) and isinstance(value, dict):
        return annotation.from_dict(value)
    return value


def _checked(where: str, annotation: Any, value: Any) -> Any:
    """`value` if it is of the annotated type (whole numbers pass for floats), else ConfigError."""
    for kind in _alternatives(annotation):
        if typing.get_origin(kind) is typing.Literal:
            if value in typing.get_args(kind):
                return value
        elif kind is float:
            if isinstance(value, int | float) and not isinstance(value, bool) and _is_finite(value):
                return float(value)
        elif isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
            return value
    raise ConfigError(f"{where} must be {_spelled(annotation)}. Received: {reprlib.repr(value)}.")


def _is_finite(value: int | float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond the largest float
        return False


def _parsed(where: str, annotation: Any, text: str) -> Any:
    for kind in _alternatives(annotation):
        if kind is type(None) and text.lower() in ("none", "null", ""):
            return None
        if kind is bool and text.lower() in ("true", "false"):
            return text.lower() == "true"
        if kind in (int, float):
            try:
                return kind(text)
            except ValueError:
                continue
        if kind is str or text in typing.get_args(kind):
            return text
    raise ConfigError(f"{where} must be {_spelled(annotation)}. Received: {reprlib.repr(text)}.")


def _spelled(annotation: Any) -> str:
    names: list[str] = []
    for kind in _alternatives(annotation):
        if typing.get_origin(kind) is typing.Literal:
            names.extend(repr(choice) for choice in typing.get_args(kind))
        else:
            names.append("None" if kind is type(None) else kind.__name__)
    return " or ".join(names)
