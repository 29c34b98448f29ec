"""Every option of a conversion, declared once: its name, default, choices, help and place on the command line.

An option is one field of `Options`. The command line makes its flags from the fields (`importer.cli.parser`), `convert` and
`open_checkpoint` take them as keywords, and the stages are handed the same frozen value. Not here: what an option does, which
the stage that reads it decides, and flags that only shape what a command prints (`importer.cli.commands`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any

from importer.errors import UsageError, did_you_mean, shown
from importer.limits import DEFAULT_LIMITS, Limits, adjusted

__all__ = [
    "DEFAULT_OPTIONS",
    "FLAGS",
    "AdapterChoice",
    "DTypeChoice",
    "Flag",
    "OptionGroup",
    "Options",
    "ParamIdChoice",
    "QuantizedChoice",
    "SparseChoice",
    "changed",
    "described",
    "number_of",
]

_LARGEST = 1 << 63
_DTYPE_ALIASES = {
    **dict.fromkeys(("fp32", "float32", "float"), "f32"),
    **dict.fromkeys(("fp16", "float16"), "f16"),
    **dict.fromkeys(("bfloat16",), "bf16"),
    **dict.fromkeys(("fp64", "float64", "double"), "f64"),
}
"""What people call the element types elsewhere (torch, numpy, trainers); `half` means Burn's policy, not float16."""
_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}


class SparseChoice(str, Enum):
    """What becomes of sparse tensors."""

    REPORT = "report"
    DENSE = "dense"


class QuantizedChoice(str, Enum):
    """What becomes of quantised weights: reported only; their codes, with scales and zero points; or the real values."""

    REPORT = "report"
    INTEGERS = "integers"
    DEQUANTIZE = "dequantize"


class AdapterChoice(str, Enum):
    """Which way layouts change; `auto` aims at Burn unless layouts are to stay, or are Burn's already."""

    AUTO = "auto"
    NONE = "none"
    BURN = "burn"
    TORCH = "torch"


class DTypeChoice(str, Enum):
    """What becomes of floats."""

    KEEP = "keep"
    F32 = "f32"
    F16 = "f16"
    BF16 = "bf16"
    F64 = "f64"
    HALF = "half"


class ParamIdChoice(str, Enum):
    """Which ids burnpack parameters get that have none."""

    NONE = "none"
    STABLE = "stable"


class OptionGroup(str, Enum):
    """What an option decides; the commands take whole groups, and `--help` shows them under these titles."""

    READING = "reading"
    MAPPING = "what becomes what"
    OUTPUT = "output"
    POLICY = "policy"


@dataclass(frozen=True, slots=True)
class Flag:
    """What the command line and the documentation say of an option, beside its name and default.

    Attributes:
        group: what it decides, and by that which commands have it.
        about: help, one phrase.
        metavar: what stands for the value in the help; not for choices and switches.
        parse: reads the value from a command-line argument; raises `UsageError`.
        choices: the values there are, if they can be listed.
        aliases: other words for some of the choices.
        minimum: smallest number allowed.
        name: the flag's name without dashes, where it is not the field's.
        joined: makes one value of all those given, for a flag that may be given again and again.
    """

    group: OptionGroup
    about: str
    metavar: str | None = None
    parse: Callable[[str], object] | None = None
    choices: type[Enum] | None = None
    aliases: Mapping[str, str] = field(default_factory=dict)
    minimum: int | None = None
    name: str | None = None
    joined: Callable[[list[Any]], object] | None = None

    def canonical(self, word: str) -> str:
        """Return the choice that a word or one of its aliases names; other words stay as they are."""
        lower = word.lower()
        return self.aliases.get(lower, lower)


def number_of(text: str) -> float:
    """Parse a positive number, with a unit of bytes or without: `5GB`, `500MiB`, `1000000`.

    Raises:
        UsageError: it is something else.
    """
    match = re.fullmatch(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([KMG]I?B)?", text.strip().upper())
    number = float(match[1]) * _UNITS[match[2] or ""] if match else 0.0
    if not 0 < number < _LARGEST:
        raise UsageError(f"{shown(text)} is not a size", how="Write it like 5GB or 500MiB.")
    return number


def _size(text: str) -> int:
    return int(number_of(text))


def _count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,4}", text) or int(text) == 0:
        raise UsageError(f"{shown(text)} is not a whole number from 1 to 9999", how="Write it like 4.")
    return int(text)


def _bound(text: str) -> tuple[str, float]:
    """Parse `NAME=VALUE`; the value is a size or a number."""
    name, sign, value = text.partition("=")
    if not sign:
        raise UsageError(f"{shown(text)} is not a bound", how="Write it like max_tensors=1000000.")
    return name, number_of(value)


def _bounds(pairs: list[tuple[str, float]]) -> Limits:
    return adjusted(dict(pairs))


_MAPPING, _READING, _OUTPUT, _POLICY = (
    OptionGroup.MAPPING, OptionGroup.READING, OptionGroup.OUTPUT, OptionGroup.POLICY
)  # fmt: skip


def _flag(group: OptionGroup, about: str, **more: object) -> dict[str, Flag]:
    """Return the metadata of a field of `Options`."""
    return {"flag": Flag(group, about, **more)}  # type: ignore[arg-type] # the names and types are those of `Flag`


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the caller decides. `recipe="llama"` here is `--recipe llama` on the command line; choices may be given as text.

    Raises:
        UsageError: a value that is not among the choices, or a number that is too small.
    """

    recipe: str = field(
        default="auto",
        metadata=_flag(
            _MAPPING,
            "a built-in recipe, a YAML file, auto (found by config.json or names), or none (names and layouts stay)",
            metavar="auto|none|NAME|FILE",
        ),
    )
    target: str | os.PathLike[str] | None = field(
        default=None,
        metadata=_flag(
            _MAPPING,
            "a .bpk or .safetensors saved from the fresh Burn model: names, shapes, dtypes",
            metavar="FILE",
        ),
    )
    dtype: DTypeChoice | None = field(
        default=None,
        metadata=_flag(
            _MAPPING,
            "cast every float (half: f16, but BatchNorm stays f32; default: what the recipe says)",
            choices=DTypeChoice,
            aliases=_DTYPE_ALIASES,
        ),
    )
    adapter: AdapterChoice = field(
        default=AdapterChoice.AUTO,
        metadata=_flag(_MAPPING, "layout change by module type: to Burn's, to torch's, or none", choices=AdapterChoice),
    )
    merge: tuple[str, ...] = field(
        default=(),
        metadata=_flag(
            _MAPPING,
            "work an adapter (PEFT, kohya or diffusers LoRA) into the weights; again for more of them",
            metavar="ADAPTER[=WEIGHT]",
            parse=str,
            joined=tuple,
        ),
    )
    prefix: tuple[str, ...] = field(
        default=(),
        metadata=_flag(
            _MAPPING,
            "put NAME before the names of a source; once for each of several sources, in their order",
            metavar="NAME",
            parse=str,
            joined=tuple,
        ),
    )
    only: tuple[str, ...] = field(
        default=(),
        metadata=_flag(
            _MAPPING,
            "convert only output names that match; may be repeated, and any of them will do",
            metavar="REGEX",
            joined=tuple,
        ),
    )
    root: str | None = field(
        default=None,
        metadata=_flag(_READING, "dotted key below which the weights lie (default: found)", metavar="KEY"),
    )
    sparse: SparseChoice = field(
        default=SparseChoice.REPORT,
        metadata=_flag(_READING, "sparse tensors: report them only, or read them as dense ones", choices=SparseChoice),
    )
    quantized: QuantizedChoice | None = field(
        default=None,
        metadata=_flag(
            _READING,
            "quantised weights: real values, codes (NAME.int_repr with NAME.scale and NAME.zero_point), or report them only "
            "(default: report where listed, dequantize where converted)",
            choices=QuantizedChoice,
        ),
    )
    checksums: bool = field(
        default=True,
        metadata=_flag(
            _READING, "do not compare the checksums of the records that are read (ZIP)", name="no_checksums"
        ),
    )
    limits: Limits = field(
        default=DEFAULT_LIMITS,
        metadata=_flag(
            _READING,
            "raise or lower a bound on untrusted input, as a message names it (max_dense_bytes=8GB)",
            metavar="NAME=VALUE",
            parse=_bound,
            name="limit",
            joined=_bounds,
        ),
    )
    param_ids: ParamIdChoice = field(
        default=ParamIdChoice.NONE,
        metadata=_flag(
            _OUTPUT,
            "burnpack parameter ids: none, or derived from the names (a --target's own ids win)",
            choices=ParamIdChoice,
        ),
    )
    shard_size: int | None = field(
        default=None,
        metadata=_flag(_OUTPUT, "split into files of at most SIZE (5GB)", metavar="SIZE", parse=_size, minimum=1),
    )
    overwrite: bool = field(default=False, metadata=_flag(_OUTPUT, "replace an existing OUT"))
    workers: int | None = field(
        default=None,
        metadata=_flag(
            _OUTPUT,
            "threads that read and write, 64 at most (default: the cores, 4 at most)",
            metavar="N",
            parse=_count,
            minimum=1,
        ),
    )
    dry_run: bool = field(default=False, metadata=_flag(_OUTPUT, "plan and report, write nothing"))
    allow_missing: bool = field(default=False, metadata=_flag(_POLICY, "leave out what the source does not give"))
    unscaled_fp8: bool = field(
        default=False,
        metadata=_flag(_POLICY, "8-bit floats without scales are the weights themselves: cast them as asked"),
    )
    strict: bool = field(default=False, metadata=_flag(_POLICY, "fail if a tensor of the source is unused"))

    def __post_init__(self) -> None:
        """Check the values, and turn texts into the choices they name, and one of what may be several into a tuple."""
        for name, flag in FLAGS.items():
            value = getattr(self, name)
            if flag.joined is tuple and not isinstance(value, tuple):
                several = (value,) if isinstance(value, str | os.PathLike) else value or ()
                object.__setattr__(self, name, tuple(os.fspath(one) for one in several))
            if flag.choices is not None and value is not None and not isinstance(value, flag.choices):
                object.__setattr__(self, name, _chosen(name, flag, value))
            elif flag.minimum is not None and value is not None and value < flag.minimum:
                raise UsageError(f"{name} is {value}", how="Give a positive number, or None.")


def _chosen(name: str, flag: Flag, value: object) -> Enum:
    assert flag.choices is not None
    word = flag.canonical(value) if isinstance(value, str) else value
    try:
        return flag.choices(word)
    except ValueError:
        known = ", ".join(str(member.value) for member in flag.choices)
        raise UsageError(f"{name} is {shown(value)}", how=f"Choose one of {known}.") from None


FLAGS: Mapping[str, Flag] = {one.name: one.metadata["flag"] for one in fields(Options)}
"""By the name of the field, in the order of the help."""

DEFAULT_OPTIONS = Options()
"""What happens where nothing is said."""


def changed(options: Options, changes: Mapping[str, object], *groups: OptionGroup) -> Options:
    """Return the options with some of them, those of `groups` if there are any, changed.

    Raises:
        UsageError: there is no such option of that name, or not this value of it.
    """
    known = [name for name, flag in FLAGS.items() if not groups or flag.group in groups]
    for name in changes:
        if name not in known:
            how = did_you_mean(name, known, f"There are: {', '.join(known)}.")
            raise UsageError(f"there is no option {shown(name)}", how=how)
    return replace(options, **changes)  # type: ignore[arg-type] # the names are checked just above


def described(*groups: OptionGroup) -> str:
    """Return a line for each option of the groups, as docstrings list arguments."""
    lines = []
    for one in fields(Options):
        flag = FLAGS[one.name]
        if flag.group in groups:
            default = one.default.value if isinstance(one.default, Enum) else one.default
            default = "DEFAULT_LIMITS" if default is DEFAULT_LIMITS else default
            values = f" `{'`, `'.join(str(member.value) for member in flag.choices)}`;" if flag.choices else ""
            lines.append(f"{one.name}:{values} {flag.about}. Default: {default}.")
    return "\n            ".join(lines)
