"""Every bound on untrusted input, in one frozen value, each with its reason.

Not here: the checks themselves. Each part raises `importer.errors.LimitError` with the field's name, so that the
message, this list and the option to change it (`--limit NAME=VALUE`) all agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from importer.errors import LimitError, Location, UsageError, did_you_mean, shown

__all__ = ["DEFAULT_LIMITS", "HOSTILE_HOW", "Limits", "adjusted"]

_RAISE = "Raise the limit if this file is meant to be so large."
HOSTILE_HOW = "The file was made to exhaust memory or time; if it is trusted, raise `{limit}`."
"""How to go on where nothing harmless comes near the bound."""
_MIB = 1 << 20
_GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on what an input may ask for. Sizes are bytes unless the name says otherwise.

    Raise one with `dataclasses.replace(DEFAULT_LIMITS, max_pickle_bytes=...)`.
    """

    max_pickle_bytes: int = 512 * _MIB
    """One pickle stream. A 100,000-tensor state dict needs about 20 MB; optimizer dumps of large models reach 100 MB."""

    max_opcodes: int = 100_000_000
    """Opcodes run in one pickle. One byte is one opcode at most, so this bounds time where the size alone would not."""

    max_nesting: int = 1_000
    """Depth of containers inside containers. Real checkpoints stay below 50; recursive walkers elsewhere die at 1,000."""

    free_cost: int = 64 * _MIB
    """What reading a source may cost before its size is looked at, in bytes of memory, or steps of about as much time: some
    200,000 tensors."""

    max_cost_per_byte: int = 128
    """What reading may cost per byte of the files, above `free_cost`. A tensor of a real file takes some 250 bytes to
    describe and costs 8,000; more means parts that are there many times, or that inflate."""

    max_name_length: int = 4_096
    """Characters of one dotted tensor name."""

    max_values: int = 100_000
    """Plain values kept: for display, and the settings of quantised layers, of which a large HQQ model has 20 each for 900.
    Optimizers hold lists of numbers by the hundred thousand."""

    max_value_length: int = 2_000
    """Characters kept of one such text."""

    max_integer_bytes: int = 1_024
    """Length of one pickled long. The legacy magic number has 10 bytes; parsing is quadratic above this."""

    max_key_parts: int = 64
    """Values in a tuple or frozenset used as a key: all of them are hashed."""

    max_tensors: int = 5_000_000
    """Tensors in one checkpoint."""

    max_dimensions: int = 64
    """Rank of a tensor; numpy's own bound, and torch's."""

    max_tensor_bytes: int = 1 << 40
    """Logical size of one tensor (elements x item size), however small its storage: bounds stride-0 views."""

    max_expansion: int = 64
    """Logical bytes of a checkpoint's tensors and arrays per byte of file, above `free_expansion`: bounds what is written
    for stride-0 views, and for arrays that are there many times."""

    free_expansion: int = 256 * _MIB
    """Logical bytes below which `max_expansion` is not looked at: small files may expand masks and constants."""

    max_archive_entries: int = 2_000_000
    """Entries of one archive."""

    max_inflation: int = 200
    """Uncompressed bytes per compressed byte of one deflated entry, above `free_inflation`. Weights deflate by 1.1;
    zeros reach 1,000, which is also what bombs use."""

    free_inflation: int = 64 * _MIB
    """Uncompressed size of one entry below which `max_inflation` is not looked at."""

    max_header_bytes: int = 100_000_000
    """JSON header of a safetensors file, the reference implementation's own bound; directory of a ZIP archive, whose
    100,000 entries take 7 MB."""

    max_metadata_bytes: int = 100 * _MIB
    """CBOR metadata of a burnpack file; Burn's own bound."""

    max_text_record_bytes: int = 64 * _MIB
    """Small text beside the weights: config.json, *.index.json, version and byteorder records, TorchScript code."""

    free_layers: int = 10_000
    """Turns of loops, layers and parameters of a recipe's target before `max_layers_per_tensor` is looked at."""

    max_layers_per_tensor: int = 16
    """The same for each tensor of the source: numbers of layers come from a config nobody has checked."""

    max_recipe_bytes: int = 4 * _MIB
    """One YAML recipe."""

    max_dense_bytes: int = 4 * _GIB
    """Size of one sparse tensor made dense on request."""

    regex_timeout_seconds: float = 2.0
    """One substitution on one name. Real rules take microseconds."""

    def require(self, name: str, actual: float, what: str, where: Location | None = None, how: str = _RAISE) -> None:
        """Hold a value against the bound of that name.

        Raises:
            LimitError: it is larger; says `what`, and `how` to go on.
        """
        if actual > getattr(self, name):
            raise self.passed(name, actual, what, where, how)

    def passed(
        self, name: str, actual: float, what: str, where: Location | None = None, how: str = _RAISE
    ) -> LimitError:
        """Return the error for a bound that is passed; `{limit}` in `how` stands for its name."""
        how = how.format(limit=name)
        return LimitError(what, limit=name, allowed=getattr(self, name), actual=actual, where=where, how=how)


DEFAULT_LIMITS = Limits()
"""The bounds used where no others are given."""


def adjusted(changes: Mapping[str, float]) -> Limits:
    """Return the default bounds with some of them changed.

    Raises:
        UsageError: there is no bound of that name.
    """
    known = [field.name for field in fields(Limits)]
    for name in changes:
        if name not in known:
            how = did_you_mean(name, known, f"There are: {', '.join(known)}.")
            raise UsageError(f"there is no limit called {shown(name)}", how=how)
    whole = {name: value if name == "regex_timeout_seconds" else int(value) for name, value in changes.items()}
    return replace(DEFAULT_LIMITS, **whole)  # type: ignore[arg-type] # the names are checked just above
