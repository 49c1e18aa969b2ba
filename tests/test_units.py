"""Units read what people write, write what they read, and say what is wrong in one line."""

from __future__ import annotations

import random
import subprocess
import sys
from decimal import Decimal

import pytest

from gpuproof.errors import ExitCode, GPUproofError
from gpuproof.units import (
    BINARY_UNITS,
    DECIMAL_UNITS,
    CountRange,
    Duration,
    GpuRequest,
    Memory,
    MemoryRange,
    Money,
    UnitError,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("24GiB", 24 * 2**30),
        ("24 GB", 24 * 10**9),
        ("512MiB", 512 * 2**20),
        ("22888 mib", 22888 * 2**20),
        ("1.5TiB", 3 * 2**39),
        ("0B", 0),
    ],
)
def test_memory_is_read_in_bytes(text: str, size: int) -> None:
    assert Memory.parse(text).bytes == size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("8h", 28800),
        ("90m", 5400),
        ("1h30m", 5400),
        ("1 hour 30 minutes", 5400),
        ("1.5h", 5400),
        ("45s", 45),
        ("2d", 172800),
        ("5min", 300),
        (3600, 3600),
        ("60", 60),
        (0, 0),
    ],
)
def test_a_duration_is_read_in_seconds(text: object, seconds: int) -> None:
    assert Duration.parse(text).seconds == seconds


@pytest.mark.parametrize(
    ("text", "usd"),
    [
        ("$2.50", "2.5"),
        ("2.5", "2.5"),
        ("2.50 USD", "2.5"),
        ("2.50 usd", "2.5"),
        (2.5, "2.5"),
        (7, "7"),
        ("$ 3", "3"),
    ],
)
def test_money_is_read_in_us_dollars(text: object, usd: str) -> None:
    assert Money.parse(text).usd == Decimal(usd)


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("1..4", 1, 4),
        ("4", 4, 4),
        (4, 4, 4),
        ("2..", 2, None),
        ("2+", 2, None),
        ("..8", None, 8),
        ("1 .. 4", 1, 4),
    ],
)
def test_a_count_may_be_a_range(text: object, low: int | None, high: int | None) -> None:
    assert CountRange.parse(text) == CountRange(low, high)


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("24GiB+", 24, None),
        ("24GiB..", 24, None),
        ("16GiB..48GiB", 16, 48),
        ("..80GiB", None, 80),
        ("24GiB", 24, 24),
    ],
)
def test_memory_may_be_a_range(text: str, low: int | None, high: int | None) -> None:
    ends = (None if end is None else Memory(end * 2**30) for end in (low, high))
    assert MemoryRange.parse(text) == MemoryRange(*ends)


@pytest.mark.parametrize(
    ("text", "names", "count"),
    [
        ("A10G:1..4", ("A10G",), CountRange(1, 4)),
        ("A10G", ("A10G",), CountRange(1, 1)),
        ("a10g:4", ("A10G",), CountRange(4, 4)),
        ("A10G,L4:1", ("A10G", "L4"), CountRange(1, 1)),
        ("RTX PRO 6000:2", ("RTX PRO 6000",), CountRange(2, 2)),
        (":2", (), CountRange(2, 2)),
        ("1", (), CountRange(1, 1)),
        (8, (), CountRange(8, 8)),
        ("2..", (), CountRange(2, None)),
    ],
)
def test_a_gpu_request_names_models_and_a_count(
    text: object, names: tuple[str, ...], count: CountRange
) -> None:
    assert GpuRequest.parse(text) == GpuRequest(names, count)


def test_a_range_holds_its_ends_and_nothing_beyond() -> None:
    assert [number for number in range(7) if number in CountRange(2, 4)] == [2, 3, 4]
    assert Memory(2**40) in MemoryRange(Memory(1), None)
    assert Memory(0) not in MemoryRange(Memory(1), None)


@pytest.mark.parametrize(
    ("unit", "text", "message"),
    [
        (Memory, "24", "'24' has no unit of memory: write, for example, 24GiB"),
        (
            Memory,
            "24G",
            "'G' in '24G' is not a unit of memory: write 24GiB (powers of 1024) or 24GB (powers of 1000)",
        ),
        (Memory, "-1GiB", "'-1GiB' is not an amount of memory: write, for example, 24GiB"),
        (Memory, True, "true is not an amount of memory: write, for example, 24GiB"),
        (Duration, "0.5s", "'0.5s' is not a whole number of seconds: round it, as in 45s"),
        (Duration, "1h2h", "'1h2h' has the same unit twice: write, for example, 1h30m"),
        (
            Duration,
            "8 parsecs",
            "'parsecs' in '8 parsecs' is not a unit of time: use d, h, m or s, as in 1h30m",
        ),
        (Duration, -5, "'-5' is not a duration: write, for example, 8h, 1h30m or 45s"),
        (Money, "€2.50", "'€2.50' is not a price in US dollars: write, for example, $2.50"),
        (Money, None, "null is not a price in US dollars: write, for example, $2.50"),
        (CountRange, "4..1", "the range 4..1 is reversed: write 1..4"),
        (CountRange, "1-4", "'1-4' is not a whole number: write, for example, 4, 1..4, 2.. or ..8"),
        (CountRange, "..", "'..' is not a range: write, for example, 4, 1..4, 2.. or ..8"),
        (MemoryRange, "24", "'24' has no unit of memory: write, for example, 24GiB"),
        (GpuRequest, "4xA10G", "'4xA10G' is not a valid GPU count: write A10G:4"),
        (GpuRequest, "A10G x 4", "'A10G x 4' is not a valid GPU count: write A10G:4"),
        (GpuRequest, "A10G:0", "'A10G:0' requests no GPU: remove the key to run without a GPU"),
        (GpuRequest, "24GiB", "'24GiB' is an amount of memory: use the key gpu_memory for it"),
        (
            GpuRequest,
            "A10G:2,L4:4",
            "'A10G:2,L4:4' has a count for a single model: write one count for all models: A10G,L4:1",
        ),
        (GpuRequest, "", "'' names no GPU: write, for example, A10G:1, A10G,L4:1 or :2"),
    ],
)
def test_a_wrong_value_is_named_with_a_right_one(unit: type[Memory], text: object, message: str) -> None:
    with pytest.raises(UnitError) as caught:
        unit.parse(text)
    assert str(caught.value) == message


def test_a_unit_error_is_a_users_mistake_and_a_value_error() -> None:
    assert issubclass(UnitError, ValueError)
    assert issubclass(UnitError, GPUproofError)
    assert UnitError.exit_code is ExitCode.USAGE


def test_any_amount_of_memory_survives_being_written_and_read() -> None:
    chance = random.Random(7)
    sizes = [*BINARY_UNITS.values(), *DECIMAL_UNITS.values(), 1]
    for _ in range(2000):
        memory = Memory(chance.randrange(1, 5000) * chance.choice(sizes) // chance.choice([1, 2, 4, 1000]))
        assert Memory.parse(str(memory)) == memory


def test_any_duration_survives_being_written_and_read() -> None:
    chance = random.Random(7)
    for _ in range(2000):
        duration = Duration(chance.randrange(10 ** chance.randrange(1, 8)))
        assert Duration.parse(str(duration)) == duration


def test_any_price_survives_being_written_and_read() -> None:
    chance = random.Random(7)
    for _ in range(2000):
        money = Money(Decimal(chance.randrange(10**7)).scaleb(-chance.randrange(7)))
        assert Money.parse(str(money)) == money


def test_any_range_survives_being_written_and_read() -> None:
    chance = random.Random(7)
    for _ in range(2000):
        low, high = sorted(chance.randrange(1, 100) for _ in range(2))
        count = chance.choice(
            [CountRange(low, high), CountRange(low), CountRange(None, high), CountRange(low, low)]
        )
        assert CountRange.parse(str(count)) == count
        ends = (None if end is None else Memory(end * 2**30) for end in (count.low, count.high))
        memory = MemoryRange(*ends)
        assert MemoryRange.parse(str(memory)) == memory
        request = GpuRequest(chance.choice([(), ("A10G",), ("L4", "RTX PRO 6000")]), count)
        assert GpuRequest.parse(str(request)) == request


@pytest.mark.parametrize(
    ("unit", "text", "written"),
    [
        (Memory, "24GiB", "24GiB"),
        (Memory, "24GB", "24GB"),
        (Memory, "1536MiB", "1.5GiB"),
        (Duration, "90m", "1h30m"),
        (Duration, 0, "0s"),
        (Money, "2.5", "$2.50"),
        (Money, "0.0035", "$0.0035"),
        (MemoryRange, "24GiB+", "24GiB+"),
        (CountRange, "2..", "2.."),
        (GpuRequest, "A10G", "A10G:1"),
        (GpuRequest, "1", ":1"),
    ],
)
def test_values_are_written_as_people_write_them(unit: type[Memory], text: object, written: str) -> None:
    assert str(unit.parse(text)) == written


def test_values_sort_and_serve_as_keys() -> None:
    assert sorted([Memory.parse("1GiB"), Memory.parse("1GB")]) == [Memory(10**9), Memory(2**30)]
    assert max(Duration.parse("90m"), Duration.parse("1h")) == Duration(5400)
    assert {Money.parse("2.50"), Money.parse("$2.5")} == {Money(Decimal("2.5"))}
    assert len({GpuRequest.parse("A10G"), GpuRequest.parse("a10g:1")}) == 1


def test_units_do_not_import_pydantic() -> None:
    code = "import sys, gpuproof.units; sys.exit('pydantic' in sys.modules or 'pydantic_core' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_units_are_fields_of_a_pydantic_model() -> None:
    from pydantic import BaseModel, ValidationError

    class Machine(BaseModel):
        memory: MemoryRange
        gpu: GpuRequest | None = None
        price: Money = Money(Decimal(1))

    machine = Machine.model_validate({"memory": "24GiB+", "gpu": 2, "price": 2.5})
    assert machine.model_dump(mode="json") == {"memory": "24GiB+", "gpu": ":2", "price": "$2.50"}
    assert Machine.model_validate(machine.model_dump()) == machine
    with pytest.raises(ValidationError, match="'24' has no unit of memory"):
        Machine.model_validate({"memory": "24"})


@pytest.mark.parametrize("unit", [Memory, Duration, Money, CountRange, MemoryRange, GpuRequest])
def test_the_json_schema_of_a_unit_takes_its_own_examples(unit: type[Memory]) -> None:
    import jsonschema
    from pydantic import TypeAdapter

    schema = TypeAdapter(unit).json_schema()
    assert schema["description"]
    for example in schema["examples"]:
        jsonschema.validate(example, schema)
        jsonschema.validate(str(unit.parse(example)), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate("!", schema)


@pytest.mark.parametrize("text", ["RTX4090", "RTX4090:1", "rtx4090:1"])
def test_digits_after_an_x_may_belong_to_the_name_of_a_gpu(text: str) -> None:
    assert GpuRequest.parse(text) == GpuRequest(("RTX4090",), CountRange(1, 1))
