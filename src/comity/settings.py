"""Settings: named values with defaults and ranges, declared once, where they are used.

The declaration serves validation, error messages, `comity list` and the documentation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from comity.errors import UserError, unknown


class Settings(BaseModel):
    """A frozen set of named values; unknown names and numbers that are not finite are refused."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False
    )

    @field_validator("*")
    @classmethod
    def _of_64_bits(cls, value: Any) -> Any:
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise ValueError("must be a number of 64 bits")
        return value


def setting(
    default: Any,
    help: str,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
) -> Any:
    """Declare a setting as a field of `Settings`: ``top_r: float = setting(0.5, "…", at_most=1)``.

    Args:
        default: Its default; ``...``: it has none and must be given.
        help: Its meaning, for lists and error messages.
        above: Exclusive lower bound.
        at_least: Inclusive lower bound.
        below: Exclusive upper bound.
        at_most: Inclusive upper bound.
    """
    return Field(default, description=help, gt=above, ge=at_least, lt=below, le=at_most)


S = TypeVar("S", bound=Settings)


def build(cls: type[S], values: Mapping[str, Any], where: str) -> S:
    """Return settings made from values; a wrong one is a `UserError` that names field and range.

    Args:
        cls: The settings' class.
        values: Values by name.
        where: Name of the table for messages; ``"run"`` for run-level settings.
    """
    if not isinstance(values, Mapping):
        raise UserError(f"{where} = {values!r}: must be a table of settings.")
    for name in values:
        if name not in cls.model_fields:
            raise unknown(f"setting of {where}", name, cls.model_fields)
    try:
        return cls(**values)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"][:1])
        problem = first["msg"].removeprefix("Value error, ")
        if first["type"] == "string_pattern_mismatch":
            problem = "is not one of the valid forms"
        field = cls.model_fields.get(name)
        about = f" ({field.description})" if field is not None and field.description else ""
        full = name if where == "run" else f"{where}.{name}"
        raise UserError(
            f"{full} = {first['input']!r}: {problem[0].lower() + problem[1:]}{about}."
        ) from None


@dataclass(frozen=True)
class SettingInfo:
    """Declaration of a setting, for lists, docs and editors."""

    name: str
    type: str
    """Its type as Python writes it: ``Literal['adam', 'sgd']``."""
    default: Any
    """Its default; None also where it must be given."""
    range: str
    """Its bounds in words: ``above 0, at most 1``; empty where there are none."""
    help: str
    """Its meaning."""

    def __str__(self) -> str:
        about = f"default {self.default}" + (f"; {self.range}" if self.range else "")
        return f"{self.name} ({about}): {self.help}"


def describe(cls: type[Settings]) -> list[SettingInfo]:
    """Return the declaration of each setting, in order."""
    return [
        SettingInfo(
            name,
            _type_text(field.annotation),
            None if field.is_required() else field.default,
            _range_text(field.metadata),
            field.description or "",
        )
        for name, field in cls.model_fields.items()
    ]


def _type_text(annotation: Any) -> str:
    """Return a type as Python writes it, without what validates it."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type_text(arguments[0])
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, arguments))}]"
    if origin in (Union, UnionType):
        return " | ".join(map(_type_text, arguments))
    if origin is not None:
        return f"{origin.__name__}[{', '.join(map(_type_text, arguments))}]"
    return "None" if annotation is type(None) else str(annotation.__name__)


def _range_text(metadata: Iterable[Any]) -> str:
    """Return bounds in words."""
    words = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
    return ", ".join(
        f"{word} {getattr(bound, name)}"
        for bound in metadata
        for name, word in words.items()
        if getattr(bound, name, None) is not None
    )
