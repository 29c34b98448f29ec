"""The target of a conversion as declared layers: from a recipe's template, from a plan, or from a saved fresh module.

Not here: types and constructors (`unifying`, `lifting`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from importer.adapters import LAYERS
from importer.errors import UnsupportedError, shown
from importer.recipes.language.expressions import Expression, Value
from importer.recipes.outcome import Template, TemplateLayer
from importer.recipes.recipe import Recipe, TemplateNode
from importer.rust.burn_layers import EPSILON, HEADS
from importer.rust.gathering import gathered
from importer.rust.rust_types import ConfigField, Declared, Number, RustTarget
from importer.rust.symbols import Symbols, read_symbols
from importer.suggest.target_modules import TargetModule
from importer.suggest.template_text import doubt_about

__all__ = ["ModuleFacts", "check_expressible", "declare_template", "declare_units"]

_VARIANT = re.compile(r"<(\w+)>")
_EPSILONS: Mapping[str, tuple[str, ...]] = {
    "RmsNorm": ("rms_norm_eps", "layer_norm_epsilon", "norm_eps", "norm_epsilon"),
    "LayerNorm": ("layer_norm_eps", "layer_norm_epsilon", "norm_eps", "norm_epsilon"),
    "BatchNorm": ("batch_norm_eps",),
    "GroupNorm": (),
    "InstanceNorm": (),
}
"""Fields of config.json that give the epsilon of a kind of norm (names of transformers' configurations)."""
_BURN_EPSILON = "1e-5"
"""Burn's default for every norm (burn-nn 0.22)."""
_NORMS_INSIDE = dict.fromkeys(
    ("TransformerEncoder", "TransformerEncoderLayer", "TransformerDecoder", "TransformerDecoderLayer"), "LayerNorm"
)
_WITH_HEADS = frozenset({"Mha", "CrossAttention", *_NORMS_INSIDE})
_HEADS = ("num_attention_heads", "n_head", "num_heads", "n_heads", "attention_heads")
_RECURRENT = frozenset({"Lstm", "BiLstm", "Gru", "BiGru", "Rnn", "BiRnn"})


@dataclass(frozen=True, slots=True)
class ModuleFacts:
    """What is known besides the layers.

    Attributes:
        name: name of the root struct.
        config: contents of config.json, or None.
        elements: parameter name → `int` or `bool`, for those that are not floats.
        about: lines for the file's comment.
    """

    name: str
    config: Mapping[str, object] | None
    elements: Mapping[str, str]
    about: tuple[str, ...]


def declare_template(recipe: Recipe, template: Template, values: Mapping[str, Value], facts: ModuleFacts) -> RustTarget:
    """Return the target that a recipe's settled template declares.

    Args:
        recipe: the recipe.
        template: its target with numbers settled.
        values: the recipe's short names with their values, as far as they have one.
        facts: everything else.
    """
    symbols = read_symbols(recipe)
    known = {short: value for short, value in values.items() if _rust_value(value)}
    words = _variants(recipe.target)
    layers = [
        _from_template(path, layer, replace_fields(symbols, known), words, facts)
        for path, layer in template.layers.items()
    ]
    lengths = {
        path: f"config.{symbols.fields[short]}"
        for path, short in symbols.lengths.items()
        if isinstance(known.get(short), int)
    }
    lengths = {path: text for path, text in lengths.items() if _is_length(path, known[symbols.lengths[path]], layers)}
    used = _names_used(layers, lengths.values())
    settings = tuple(
        _setting(symbols.fields[short], value, recipe.config[short].expression.text)
        for short, value in known.items()
        if symbols.fields[short] in used
    )
    return _with_settings(RustTarget(facts.name, tuple(_unstacked(layers)), lengths, settings, facts.about), facts)


def replace_fields(symbols: Symbols, known: Mapping[str, Value]) -> Symbols:
    """Keep only the names that have a value a Rust config can hold."""
    return replace(symbols, fields={short: name for short, name in symbols.fields.items() if short in known})


def _is_length(path: tuple[str, ...], value: Value, layers: Iterable[Declared]) -> bool:
    """Whether every list at this path is as long as the name says; a condition may leave elements out."""
    numbers: dict[tuple[str, ...], set[int]] = {}
    for layer in layers:
        depth = len(path)
        head = layer.path[:depth]
        if (
            len(layer.path) > depth
            and layer.path[depth].isdecimal()
            and all(a in ("*", b) for a, b in zip(path, head, strict=False))
        ):
            numbers.setdefault(head, set()).add(int(layer.path[depth]))
    return bool(numbers) and all(found == set(range(len(found))) and len(found) == value for found in numbers.values())


def declare_units(units: Sequence[TargetModule], kinds: Mapping[str, str], facts: ModuleFacts) -> RustTarget:
    """Return the target that parameter names and shapes declare.

    Args:
        units: modules with the layers each may be.
        kinds: module path → layer kind, where it is known; decides between a unit's candidates.
        facts: everything else.
    """
    layers = []
    for unit in units:
        reading = next((one for one in unit.candidates if one.kind == kinds.get(unit.path)), unit.candidates[0])
        is_told = kinds.get(unit.path) == reading.kind
        segments = tuple(unit.path.split("."))
        words = tuple(f"<{word}>" if word[:1].isupper() else word for word in segments)
        doubt = "" if is_told else doubt_about(unit)
        layers.append(Declared(words, reading.kind, dict(reading.args), {}, _element(unit.path, facts), doubt))
    layers = gathered(list(_unstacked(layers)))
    named, settings = _named_numbers(layers)
    return _with_settings(RustTarget(facts.name, tuple(named), {}, settings, facts.about), facts)


def _from_template(
    path: str, layer: TemplateLayer, symbols: Symbols, words: frozenset[str], facts: ModuleFacts
) -> Declared:
    given = symbols.calls.get(layer.rule, {})
    signature = LAYERS[layer.kind].signature
    texts: dict[str, str] = {}
    for place, argument in enumerate(signature):
        expression = given.get(argument.name, given.get(place))
        text = None if expression is None else symbols.rust(expression)
        if text is not None:
            texts[argument.name] = text
    if layer.kind == "Param":
        texts = _shape_text(layer, given, symbols)
    segments = tuple(f"<{word}>" if word in words else word for word in path.split("."))
    return Declared(segments, layer.kind, dict(layer.args), texts, _element(path, facts))


def _shape_text(layer: TemplateLayer, given: Mapping[int | str, Expression], symbols: Symbols) -> dict[str, str]:
    """Return the shape of a bare parameter, dimensions as names where they have one."""
    dims = layer.args.get("dims")
    sizes = dims if isinstance(dims, tuple) else ()
    texts = [symbols.rust(given[place]) if place in given else None for place in range(len(sizes))]
    if not any(texts):
        return {}
    words = [text or str(size) for text, size in zip(texts, sizes, strict=True)]
    return {"dims": f"[{', '.join(words)}]"}


def _element(path: str, facts: ModuleFacts) -> str:
    return facts.elements.get(path, "float")


def _variants(node: TemplateNode | None) -> frozenset[str]:
    """Return the names of enum variants in a template."""
    if node is None:
        return frozenset()
    found = frozenset(_VARIANT.findall(node.key))
    return found.union(*(_variants(child) for child in node.children))


def _unstacked(layers: Iterable[Declared]) -> Iterator[Declared]:
    """Take recurrent layers of several layers apart: Burn has a Vec of them."""
    for layer in layers:
        count = layer.args.get("layers")
        if layer.kind not in _RECURRENT or not isinstance(count, int) or count <= 1:
            yield layer
            continue
        hidden = layer.args.get("hidden")
        width = hidden * (2 if layer.kind.startswith("Bi") else 1) if isinstance(hidden, int) else None
        for number in range(count):
            args = {**layer.args, "layers": 1, **({"in": width} if number else {})}
            symbols = {name: text for name, text in layer.symbols.items() if name == "hidden"}
            yield replace(layer, path=(*layer.path, str(number)), args=args, symbols=symbols)


def _rust_value(value: Value) -> bool:
    if isinstance(value, bool):
        return True
    return isinstance(value, int) and value >= 0


def _setting(name: str, value: Value, expression: str) -> ConfigField:
    kind = "bool" if isinstance(value, bool) else "usize"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return ConfigField(
        name, kind, text, f"`{expression}` of config.json" if expression.isidentifier() else f"`{expression}`"
    )


def _names_used(layers: Iterable[Declared], lengths: Iterable[str]) -> set[str]:
    texts = [*lengths, *(text for layer in layers for text in layer.symbols.values())]
    return {name for text in texts for name in re.findall(r"config\.(\w+)", text)}


def _named_numbers(layers: Sequence[Declared]) -> tuple[list[Declared], tuple[ConfigField, ...]]:
    """Give every width a field of the config, one for each value: a saved module tells numbers, not what they are."""
    wide = {
        "Linear": ("in", "out"),
        "Embedding": ("n", "d"),
        "LayerNorm": ("d",),
        "RmsNorm": ("d",),
        "SwiGlu": ("in", "out"),
    }
    wide |= {"Mha": ("d",), "TransformerEncoderLayer": ("d", "ff"), "TransformerDecoderLayer": ("d", "ff")}
    names: dict[int, str] = {}
    places: dict[int, int] = {}
    made: list[Declared] = []
    for layer in layers:
        texts = dict(layer.symbols)
        for argument in wide.get(layer.kind, ()):
            value = layer.args.get(argument)
            if not isinstance(value, int) or value <= 1:
                continue
            word = next((one for one in reversed(layer.path) if not one.isdecimal()), "size")
            word = f"{word.strip('<>').lower()}_{argument}"
            if value not in names:
                names[value] = word if word not in names.values() else f"{word}_{value}"
            places[value] = places.get(value, 0) + 1
            texts[argument] = f"config.{names[value]}"
        made.append(replace(layer, symbols=texts))
    settings = tuple(
        ConfigField(name, "usize", str(value), _merged(places[value], value)) for value, name in names.items()
    )
    return made, settings


def _merged(places: int, value: int) -> str:
    if places == 1:
        return "read off one parameter"
    return f"the {places} sizes that are {value}; split it where they differ in meaning"


def _with_settings(target: RustTarget, facts: ModuleFacts) -> RustTarget:
    """Add what weights do not tell: head counts and epsilons, as far as config.json gives them."""
    settings = list(target.settings)
    epsilons: dict[str, str] = {}
    heads: dict[tuple[str, ...], str] = {}
    layers = []
    for layer in target.layers:
        texts = dict(layer.symbols)
        kind = _NORMS_INSIDE.get(layer.kind, layer.kind)
        if kind in _EPSILONS:
            texts[EPSILON] = _epsilon(kind, facts, epsilons, settings)
        if layer.kind in _WITH_HEADS:
            texts[HEADS] = _head_count(layer, facts, heads, settings)
        layers.append(replace(layer, symbols=texts))
    return replace(target, layers=tuple(layers), settings=tuple(settings))


def _epsilon(kind: str, facts: ModuleFacts, known: dict[str, str], settings: list[ConfigField]) -> str:
    if kind not in known:
        found = {name: values for name in _EPSILONS[kind] if (values := _values(facts.config, name, float))}
        name, values = next(iter(found.items()), ("", set()))
        if len(values) != 1:
            known[kind] = _BURN_EPSILON
        else:
            field = _free_name(name, settings)
            if all(one.name != field for one in settings):
                settings.append(
                    ConfigField(field, "f64", repr(next(iter(values))), f"`{name}` of config.json, for every {kind}")
                )
            known[kind] = f"config.{field}"
    return known[kind]


def _free_name(name: str, settings: Sequence[ConfigField]) -> str:
    return name if all(one.name != name or one.type == "f64" for one in settings) else f"{name}_value"


def _head_count(
    layer: Declared, facts: ModuleFacts, known: dict[tuple[str, ...], str], settings: list[ConfigField]
) -> str:
    """Return the config field with a layer's head count; towers of different sizes have one each."""
    tower = layer.path[:1] if len(layer.path) > 1 else ()
    if tower not in known:
        value = _told_heads(tower, layer, facts)
        existing = next(
            (one for one in settings if one.name in _HEADS and value is not None and one.default == str(value)), None
        )
        if existing is not None:
            known[tower] = f"config.{existing.name}"
        else:
            name = "n_heads" if all(one.name != "n_heads" for one in settings) else f"{tower[0]}_n_heads"
            about = (
                "heads of every attention"
                if not tower or name == "n_heads"
                else f"heads of the attentions below `{tower[0]}`"
            )
            settings.append(
                ConfigField(name, "usize", "" if value is None else str(value), f"{about}; no weight tells it")
            )
            known[tower] = f"config.{name}"
    return known[tower]


def _told_heads(tower: tuple[str, ...], layer: Declared, facts: ModuleFacts) -> int | None:
    """Return the head count that config.json gives, if it gives one and only one that fits."""
    config = facts.config or {}
    word = tower[0].removesuffix("_model") if tower else ""
    inner = config.get(f"{word}_config")
    places: list[Mapping[str, object]] = [inner] if isinstance(inner, Mapping) else []
    names = [f"{word}_attention_heads", *_HEADS] if word else list(_HEADS)
    for place in [*places, config]:
        for name in names:
            value = place.get(name)
            width = layer.args.get("d")
            if (
                isinstance(value, int)
                and not isinstance(value, bool)
                and value > 0
                and isinstance(width, int)
                and width % value == 0
            ):
                return value
    return None


def _values(config: Mapping[str, object] | None, name: str, kind: type[float]) -> set[float]:
    """Return the values a field has in config.json and in the configurations of its parts."""
    found: set[float] = set()
    for place in (config or {}, *(one for one in (config or {}).values() if isinstance(one, Mapping))):
        value = place.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            found.add(kind(value))
    return found


def check_expressible(target: RustTarget) -> None:
    """Refuse parameters that Burn cannot hold.

    Raises:
        UnsupportedError: a bare parameter without dimensions.
    """
    for layer in target.layers:
        dims: Number = layer.args.get("dims")
        if layer.kind == "Param" and dims == ():
            raise UnsupportedError(
                f"{shown('.'.join(layer.path))} has no dimension, and a Burn tensor has at least one",
                how="Give it one in the recipe (rearrange: '-> 1').",
            )
