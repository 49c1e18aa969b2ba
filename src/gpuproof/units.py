"""Values with units that are parsed from text: `24GiB`, `8h`, `$2.50`, `1..8`, `A10G:1..4`.

Each type is frozen and hashable; `parse` reads text, and `str` returns text that `parse` reads back as the same value.
Each can be the type of a pydantic field and has a JSON schema, but pydantic is imported only by models.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from gpuproof.errors import ExitCode, GPUproofError

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

BINARY_UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}
DECIMAL_UNITS = {"kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15}
"""Bytes in each unit (IEC 80000-13): `GiB` is based on 1024, `GB` on 1000."""

_NUMBER = r"\d{1,20}(?:\.\d{1,9})?"
_BYTES = {name.lower(): size for name, size in {"B": 1, **BINARY_UNITS, **DECIMAL_UNITS}.items()}
_MEMORY = rf"{_NUMBER} ?(?:[KkMmGgTtPp][Ii]?)?[Bb]"
_SECONDS = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600),
    **dict.fromkeys(("d", "day", "days"), 86400),
    **dict.fromkeys(("w", "week", "weeks"), 7 * 86400),
}
_GPU_NAME = r"[A-Za-z][A-Za-z0-9._-]*(?: [A-Za-z0-9._-]+)*"


class UnitError(GPUproofError, ValueError):
    """Text that cannot be parsed as a value; the remedy has an example of a valid one."""

    exit_code = ExitCode.USAGE

    def __str__(self) -> str:
        return f"{self.message}: {self.remedy}" if self.remedy else self.message


class ParsedValue:
    """Base of values that are parsed from text: it makes them types of pydantic fields."""

    _schema: ClassVar[dict[str, Any]]

    @classmethod
    def parse(cls, text: object) -> Self:
        raise NotImplementedError

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema  # needed by models only

        return core_schema.no_info_plain_validator_function(
            cls.parse, serialization=core_schema.to_string_ser_schema()
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return dict(cls._schema)


@dataclass(frozen=True, order=True)
class Memory(ParsedValue):
    """An amount of memory.

    Args:
        bytes: number of bytes, 0 or more.
    """

    bytes: int

    _schema: ClassVar[dict[str, Any]] = {
        "type": "string",
        "pattern": rf"^{_MEMORY}$",
        "examples": ["24GiB", "512MiB", "80GB"],
        "description": "Memory with its unit; 1 GiB is 1024 MiB, 1 GB is 1000 MB.",
    }

    @classmethod
    def parse(cls, text: object) -> Self:
        """Parses `24GiB`, `24 GB` or `512MiB`; raises UnitError."""
        if isinstance(text, cls):
            return text
        match = _match(rf"({_NUMBER})\s*([A-Za-z]*)", text)
        if not match:
            raise UnitError(f"{_shown(text)} is not an amount of memory", "write, for example, 24GiB")
        number, unit = match.groups()
        if not unit:
            raise UnitError(f"{_shown(text)} has no unit of memory", f"write, for example, {number}GiB")
        size = _BYTES.get(unit.lower())
        if size is None:
            letter = unit[0].upper()
            advice = f"{number}{letter}iB (powers of 1024) or {number}{letter}B (powers of 1000)"
            known = letter in "KMGTP"
            raise UnitError(
                f"'{unit}' in {_shown(text)} is not a unit of memory",
                f"write {advice}" if known else "write, for example, 24GiB",
            )
        return cls(int(Fraction(number) * size))

    def __str__(self) -> str:
        sizes = {**BINARY_UNITS, **DECIMAL_UNITS, "B": 1}
        exact = ((unit, _decimal(Fraction(self.bytes, size))) for unit, size in sizes.items())
        texts = [f"{number}{unit}" for unit, number in exact if number and not number.startswith("0.")]
        return min(texts, key=len)


@dataclass(frozen=True, order=True)
class Duration(ParsedValue):
    """A duration.

    Args:
        seconds: whole seconds, 0 or more.
    """

    seconds: int

    _schema: ClassVar[dict[str, Any]] = {
        "type": ["string", "integer"],
        "pattern": rf"^\s*(?:{_NUMBER}\s*[A-Za-z]+\s*)+$|^\d+$",
        "minimum": 0,
        "examples": ["8h", "90m", "1h30m", "45s", "2d"],
        "description": "A duration; a plain number is in seconds.",
    }

    @classmethod
    def parse(cls, text: object) -> Self:
        """Parses `8h`, `1h30m`, `5min`, or a plain number of seconds; raises UnitError."""
        if isinstance(text, cls):
            return text
        if _match(r"\d{1,20}", text):
            return cls(int(str(text)))
        if not _match(rf"(?:{_NUMBER}\s*[A-Za-z]+\s*)+", text):
            raise UnitError(f"{_shown(text)} is not a duration", "write, for example, 8h, 1h30m or 45s")
        total = Fraction(0)
        seen: set[int] = set()
        for number, unit in re.findall(rf"({_NUMBER})\s*([A-Za-z]+)", str(text)):
            size = _SECONDS.get(unit.lower())
            if size is None:
                raise UnitError(
                    f"'{unit}' in {_shown(text)} is not a unit of time", "use d, h, m or s, as in 1h30m"
                )
            if size in seen:
                raise UnitError(f"{_shown(text)} has the same unit twice", "write, for example, 1h30m")
            seen.add(size)
            total += Fraction(number) * size
        if total.denominator != 1:
            raise UnitError(f"{_shown(text)} is not a whole number of seconds", "round it, as in 45s")
        return cls(int(total))

    def __str__(self) -> str:
        parts: list[str] = []
        rest = self.seconds
        for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
            amount, rest = divmod(rest, size)
            if amount:
                parts.append(f"{amount}{unit}")
        return "".join(parts) or "0s"


@dataclass(frozen=True, order=True)
class Money(ParsedValue):
    """An amount of money.

    Args:
        usd: US dollars, 0 or more.
    """

    usd: Decimal

    _schema: ClassVar[dict[str, Any]] = {
        "type": ["string", "number"],
        "pattern": rf"^(?:\$ ?)?{_NUMBER}(?: ?[Uu][Ss][Dd])?$",
        "minimum": 0,
        "examples": ["$2.50", 2.5, "2.50 USD"],
        "description": "US dollars.",
    }

    @classmethod
    def parse(cls, text: object) -> Self:
        """Parses `$2.50`, `2.5` or `2.50 USD`; raises UnitError."""
        if isinstance(text, cls):
            return text
        match = _match(rf"(?:\$\s*)?({_NUMBER})(?:\s*USD)?", text)
        if not match:
            raise UnitError(f"{_shown(text)} is not a price in US dollars", "write, for example, $2.50")
        return cls(Decimal(match[1]))

    def __str__(self) -> str:
        digits = max(2, -int(self.usd.normalize().as_tuple().exponent))
        return f"${self.usd:.{digits}f}"


T = TypeVar("T", int, Memory)


@dataclass(frozen=True)
class Range(ParsedValue, Generic[T]):
    """A range from `low` to `high`, both included; parsed as CountRange or MemoryRange.

    Args:
        low: minimum; None for none.
        high: maximum; None for none.
    """

    low: T | None = None
    high: T | None = None

    _example: ClassVar[str]

    def __post_init__(self) -> None:
        if self.low is not None and self.high is not None and self.low > self.high:
            raise UnitError(f"the range {self} is reversed", f"write {self.high}..{self.low}")

    @classmethod
    def _end(cls, text: str) -> T:
        raise NotImplementedError

    @classmethod
    def parse(cls, text: object) -> Self:
        """Parses `4`, `1..4`, `2..`, `2+` or `..8`; raises UnitError."""
        if isinstance(text, cls):
            return text
        written = (
            str(text).strip() if isinstance(text, str | int | Memory) and not isinstance(text, bool) else ""
        )
        if written in ("", "..", "+"):
            raise UnitError(f"{_shown(text)} is not a range", f"write, for example, {cls._example}")
        low, dots, high = written.partition("..")
        if not dots and written.endswith("+"):
            low, dots = written[:-1], "+"
        least = cls._end(low) if low.strip() else None
        if not dots:
            return cls(least, least)
        return cls(least, cls._end(high) if high.strip() else None)

    def __contains__(self, value: T) -> bool:
        return (self.low is None or self.low <= value) and (self.high is None or value <= self.high)

    def __str__(self) -> str:
        if self.low == self.high:
            return ".." if self.low is None else str(self.low)
        return f"{'' if self.low is None else self.low}..{'' if self.high is None else self.high}"


@dataclass(frozen=True)
class CountRange(Range[int]):
    """A number or a range of numbers, as in `4`, `1..4`, `2..` and `..8`."""

    _example: ClassVar[str] = "4, 1..4, 2.. or ..8"
    _schema: ClassVar[dict[str, Any]] = {
        "type": ["string", "integer"],
        "pattern": r"^(\d+|\d+\+|\d+\.\.\d*|\.\.\d+)$",
        "minimum": 0,
        "examples": ["4", "1..4", "2..", "..8"],
        "description": "A number or a range of numbers; 2.. means 2 or more.",
    }

    @classmethod
    def _end(cls, text: str) -> int:
        if not re.fullmatch(r"\s*\d{1,20}\s*", text, re.ASCII):
            raise UnitError(f"'{text}' is not a whole number", f"write, for example, {cls._example}")
        return int(text)


@dataclass(frozen=True)
class MemoryRange(Range[Memory]):
    """An amount or a range of memory, as in `24GiB`, `24GiB+` and `16GiB..48GiB`."""

    _example: ClassVar[str] = "24GiB+, 16GiB..48GiB or 24GiB"
    _schema: ClassVar[dict[str, Any]] = {
        "type": "string",
        "pattern": rf"^({_MEMORY}|{_MEMORY}\+|{_MEMORY}\.\.({_MEMORY})?|\.\.{_MEMORY})$",
        "examples": ["24GiB+", "16GiB..48GiB", "..80GiB", "24GiB"],
        "description": "An amount or a range of memory; 24GiB+ means 24 GiB or more.",
    }

    @classmethod
    def _end(cls, text: str) -> Memory:
        return Memory.parse(text)

    def __str__(self) -> str:
        return f"{self.low}+" if self.low is not None and self.high is None else super().__str__()


@dataclass(frozen=True)
class GpuRequest(ParsedValue):
    """Requested GPU models and their number.

    Args:
        names: acceptable models, as in `("A10G", "L4")`, in upper case; empty means any.
        count: number per host, 1 or more.
    """

    names: tuple[str, ...] = ()
    count: CountRange = CountRange(1, 1)

    _schema: ClassVar[dict[str, Any]] = {
        "type": ["string", "integer"],
        "pattern": rf"^(({_GPU_NAME})(, ?{_GPU_NAME})*)?(:(\d+|\d+\+|\d+\.\.\d*|\.\.\d+))?$|^\d+(\.\.\d*)?$|^\.\.\d+$",
        "minLength": 1,
        "minimum": 1,
        "examples": ["A10G:1", "A10G", "A10G:1..4", "A10G,L4:1", ":2", 1],
        "description": "GPU models and their number per host; only a number accepts any model.",
    }

    @classmethod
    def parse(cls, text: object) -> Self:
        """Parses `A10G:1..4`, `A10G`, `A10G,L4:1`, `:2` or `1` (any model); raises UnitError."""
        if isinstance(text, cls):
            return text
        written = str(text).strip() if isinstance(text, str | int) and not isinstance(text, bool) else ""
        example = "write, for example, A10G:1, A10G,L4:1 or :2"
        if re.match(rf"{_MEMORY}", written):
            raise UnitError(f"{_shown(text)} is an amount of memory", "use the key gpu_memory for it")
        if not written:
            raise UnitError(f"{_shown(text)} names no GPU", example)
        names, colon, count = (
            ("", "", written) if re.fullmatch(r"[\d.+]+", written) else written.partition(":")
        )
        # Two digits: RTX4090 is the name of a GPU.
        times = re.fullmatch(rf"(\d+)\s*[xX*]?\s*({_GPU_NAME})|({_GPU_NAME})\s*[xX*]\s*(\d{{1,2}})", names)
        if times and not colon:
            name, number = times[2] or times[3], times[1] or times[4]
            raise UnitError(f"{_shown(text)} is not a valid GPU count", f"write {name}:{number}")
        if "," in count:
            raise UnitError(
                f"{_shown(text)} has a count for a single model", "write one count for all models: A10G,L4:1"
            )
        models = tuple(name.strip().upper() for name in names.split(",")) if names.strip() else ()
        for model in models:
            if not re.fullmatch(_GPU_NAME, model):
                raise UnitError(f"'{model}' in {_shown(text)} is not the name of a GPU", example)
        many = CountRange.parse(count) if count.strip() else CountRange(1, 1)
        if many.low == 0 or many.high == 0:
            raise UnitError(f"{_shown(text)} requests no GPU", "remove the key to run without a GPU")
        return cls(models, many)

    def __str__(self) -> str:
        if not self.names:
            return f":{self.count}"
        return f"{','.join(self.names)}:{self.count}"


def _match(pattern: str, text: object) -> re.Match[str] | None:
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        return None
    return re.fullmatch(pattern, str(text).strip(), re.IGNORECASE | re.ASCII)


def _decimal(value: Fraction) -> str:
    """Formats the value with at most three decimals; returns an empty text if that is not exact."""
    thousandths = value * 1000
    if thousandths.denominator != 1:
        return ""
    return (
        format(Decimal(thousandths.numerator) / 1000, "f").rstrip("0").rstrip(".")
        if value % 1
        else str(value)
    )


def _shown(text: object) -> str:
    if isinstance(text, bool) or text is None:
        return {True: "true", False: "false", None: "null"}[text]
    written = str(text)
    return f"'{written}'" if len(written) <= 60 else f"'{written[:57]}...'"
