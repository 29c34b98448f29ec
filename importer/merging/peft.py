"""Adapters of PEFT: LoRA with its variants, from adapter_config.json and tensor names.

Names are `base_model.model.` + the module + `.lora_A.weight` `[rank, in]` and `.lora_B.weight` `[out, rank]`; the factor is
`lora_alpha / rank`, with rslora `/ sqrt(rank)`, both changed by `alpha_pattern` and `rank_pattern`. Embeddings have
`lora_embedding_A` `[rank, rows]` and `lora_embedding_B` `[columns, rank]`; DoRA has `lora_magnitude_vector`. What stands under a
plain name, or in `.modules_to_save.` or `.base_layer.`, replaces.

Source: peft tuners/lora/layer.py, tuners/lora/dora.py, utils/save_and_load.py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from importer.arrays import Array
from importer.errors import Location, UnsupportedError, UsageError, shown
from importer.merging.changes import Adapter, Change, Piece

__all__ = ["read_diffusers", "read_peft"]

_PREFIX = "base_model.model."
_SUFFIX = re.compile(
    r"(?P<module>.+)\.(?P<kind>lora_A|lora_B|lora_embedding_A|lora_embedding_B|lora_magnitude_vector)"
    r"(?:\.(?!weight$|bias$)[\w-]+)?(?:\.(?P<leaf>weight|bias))?"
)
_SAVED = re.compile(r"\.modules_to_save(?:\.(?!weight$|bias$)[\w-]+)?(?=\.)|\.original_module(?=\.)")
_REFUSED = (
    "alora_invocation_tokens", "arrow_config", "layer_replication", "use_qalora", "use_bdlora", "kasa_config", "velora_config",
    "trainable_token_indices", "target_parameters", "monteclora_config",
)  # fmt: skip
_HOW = "Merge it with peft (merge_and_unload) and convert the result."


def read_peft(arrays: Mapping[str, Array], config: Mapping[str, object] | None, where: Location) -> Adapter:
    """Read an adapter.

    Raises:
        UsageError: there is no adapter_config.json.
        UnsupportedError: it is of a method, or has a setting, that cannot be merged here.
    """
    if config is None:
        raise UsageError(
            "the adapter has no adapter_config.json beside it, which holds the factor of its changes",
            where=where,
            how="Put the adapter_config.json it was saved with beside it.",
        )
    method = config.get("peft_type")
    if method not in ("LORA", None):
        raise UnsupportedError(f"an adapter of the method {shown(method)}; only LORA is merged", where=where, how=_HOW)
    for setting in _REFUSED:
        if config.get(setting):
            raise UnsupportedError(f"an adapter with {setting}, which is not merged here", where=where, how=_HOW)
    rank, alpha = config.get("r"), config.get("lora_alpha")
    read = Adapter(f"PEFT LoRA, rank {rank}, alpha {alpha}", fan_in_fan_out=config.get("fan_in_fan_out") is True)
    pieces = _pieces(arrays, read, _PREFIX, where)
    for module, found in pieces.items():
        read.changes.append(_change(module, found, _factor(module, found, config, where), where))
    return read


def read_diffusers(arrays: Mapping[str, Array], metadata: Mapping[str, object], where: Location) -> Adapter:
    """Read an adapter in the words of diffusers: the same suffixes without a prefix, and the factor 1 where nothing says it."""
    read = Adapter("diffusers LoRA")
    renamed = {_of_diffusers(name): array for name, array in arrays.items()}
    names = {_of_diffusers(name): name for name in arrays}
    alphas = {
        name.removesuffix(".alpha"): array
        for name, array in renamed.items()
        if name.endswith(".alpha") and array.size == 1
    }
    pieces = _pieces(
        {name: array for name, array in renamed.items() if not name.endswith(".alpha")}, read, "", where, names
    )
    for module, found in pieces.items():
        alpha = alphas.get(module)
        rank = found["lora_A"].array.shape[0] if "lora_A" in found and found["lora_A"].array.shape else 1
        stated = metadata.get(f"{module.partition('.')[0]}.lora_alpha")
        factor = 1.0
        if alpha is not None:
            factor = _number(alpha) / max(rank, 1)
        elif isinstance(stated, int | float):
            factor = stated / max(rank, 1)
        read.changes.append(_change(module, found, factor, where))
    for module in alphas:
        read.aside[names[f"{module}.alpha"]] = "factor of a change"
    return read


def _of_diffusers(name: str) -> str:
    """Return a name of diffusers' older spellings in today's."""
    name = re.sub(r"\.processor\.(to_\w+)_lora\.", r".\1.lora.", name).replace(".to_out.lora.", ".to_out.0.lora.")
    name = name.replace(".lora_linear_layer.", ".lora.")
    return name.replace(".lora.down.weight", ".lora_A.weight").replace(".lora.up.weight", ".lora_B.weight")


def _pieces(
    arrays: Mapping[str, Array], read: Adapter, prefix: str, where: Location, names: Mapping[str, str] | None = None
) -> dict[str, dict[str, Piece]]:
    """Gather the pieces of every module; what is none replaces a tensor of the base."""
    pieces: dict[str, dict[str, Piece]] = {}
    for name, array in arrays.items():
        stored = name if names is None else names[name]
        plain = name.removeprefix(prefix)
        found = _SUFFIX.fullmatch(plain)
        if found is not None:
            kind = found["kind"] + ("_bias" if found["leaf"] == "bias" else "")
            pieces.setdefault(found["module"], {})[kind] = Piece(stored, array)
            continue
        if "lora_" in plain.rpartition(".")[2] or ".token_adapter." in plain or ".lora_" in plain:
            raise UnsupportedError(
                f"{shown(stored)} belongs to a variant of LoRA that is not merged here", where=where, how=_HOW
            )
        if ".original_module." in plain:
            read.aside[stored] = "a copy of the base's"
            continue
        target = _SAVED.sub("", plain).replace(".base_layer.", ".")
        read.replaced[target] = Piece(stored, array)
    return pieces


def _change(module: str, found: Mapping[str, Piece], factor: float, where: Location) -> Change:
    is_embedding = "lora_embedding_A" in found
    down, up = (found.get(f"lora_{'embedding_' if is_embedding else ''}{side}") for side in "AB")
    if down is None or up is None:
        raise UnsupportedError(
            f"{shown(module)} has {', '.join(sorted(found))} of a low-rank change, but not both of its factors",
            where=where,
            how="The adapter is not whole; get it again from where it came.",
        )
    return Change(
        module=module,
        down=down,
        up=up,
        factor=factor,
        is_embedding=is_embedding,
        magnitude=found.get("lora_magnitude_vector"),
        bias=found.get("lora_B_bias"),
    )


def _factor(module: str, found: Mapping[str, Piece], config: Mapping[str, object], where: Location) -> float:
    down = found.get("lora_A") or found.get("lora_embedding_A")
    stored = down.array.shape[0] if down is not None and down.array.shape else 0
    rank = _of_pattern(config.get("rank_pattern"), module) or stored or config.get("r")
    patterned = _of_pattern(config.get("alpha_pattern"), module)
    alpha = config.get("lora_alpha") if patterned is None else patterned
    if not isinstance(rank, int | float) or not isinstance(alpha, int | float) or rank <= 0 or stored != rank:
        raise UnsupportedError(
            f"{shown(module)} has rank {stored}, but adapter_config.json says rank {shown(rank)} and alpha {shown(alpha)}",
            where=where,
            how="The files do not belong together: get the adapter again from where it came.",
        )
    return alpha / math.sqrt(rank) if config.get("use_rslora") is True else alpha / rank


def _of_pattern(table: object, module: str) -> float | None:
    """Return what a table of patterns says of a module: the first whose key is the end of its name."""
    entries = table.items() if isinstance(table, dict) else ()
    return next((value for key, value in entries if isinstance(value, int | float) and _ends_with(module, key)), None)


def _ends_with(module: str, key: str) -> bool:
    """Whether a key, a regular expression, matches the end of a module's name, from a dot on."""
    import regex

    try:
        return regex.match(rf"(.*\.)?({key})$", module, timeout=1.0) is not None
    except (regex.error, TimeoutError):
        return False


def _number(array: Array) -> float:
    from importer.quantized.codes import small_table

    return float(small_table(array, 1)[0])
