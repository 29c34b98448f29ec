"""Modules that Burn has ready-made, recognised by the names and shapes of their parts.

A saved file names `mha.query`, `pwff.linear_inner`, `norm_1`; whoever wrote the module used Burn's `TransformerEncoderLayer`.
A struct of one's own with the same fields would load the same file, so nothing depends on the answer but what the code
reads like. Not here: layers that are one module each (`importer.suggest`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from importer.rust.rust_types import Declared, Number

__all__ = ["gathered"]

_ATTENTION = {"query": "Linear", "key": "Linear", "value": "Linear", "output": "Linear"}
_FEED_FORWARD = {"linear_inner": "Linear", "linear_outer": "Linear"}
_ORDER_UNKNOWN = "norm_first is not in the weights: true for a model that normalises before its attention"


@dataclass(frozen=True, slots=True)
class _Made:
    kind: str
    args: Mapping[str, Number]
    doubt: str = ""


def gathered(layers: Sequence[Declared]) -> list[Declared]:
    """Return the layers with those that make up a module of Burn's joined into it."""
    for step in (_transformer_layers, _attentions):
        layers = _joined(layers, dict(step(_children(layers))))
    return list(layers)


def _joined(layers: Sequence[Declared], made: Mapping[tuple[str, ...], _Made]) -> list[Declared]:
    """Put each module in the place of its first part."""
    out: list[Declared] = []
    done: set[tuple[str, ...]] = set()
    for layer in layers:
        owner = next((path for depth in range(1, len(layer.path)) if (path := layer.path[:depth]) in made), None)
        if owner is None:
            out.append(layer)
        elif owner not in done:
            done.add(owner)
            out.append(Declared(owner, made[owner].kind, made[owner].args, doubt=made[owner].doubt))
    return out


_Children = Mapping[tuple[str, ...], Mapping[str, Declared]]


def _children(layers: Sequence[Declared]) -> _Children:
    """Return, for every path, the layers below it by the rest of their path."""
    found: dict[tuple[str, ...], dict[str, Declared]] = {}
    for layer in layers:
        for depth in range(1, len(layer.path)):
            found.setdefault(layer.path[:depth], {})[".".join(layer.path[depth:])] = layer
    return found


def _attentions(children: _Children) -> Iterator[tuple[tuple[str, ...], _Made]]:
    for path, parts in children.items():
        made = _attention(parts)
        if made is not None:
            yield path, made


def _transformer_layers(children: _Children) -> Iterator[tuple[tuple[str, ...], _Made]]:
    for path, parts in children.items():
        for kind, attentions, norms in (
            ("TransformerEncoderLayer", ("mha",), 2),
            ("TransformerDecoderLayer", ("cross_attn", "self_attn"), 3),
        ):
            made = _transformer_layer(kind, attentions, norms, parts)
            if made is not None:
                yield path, made


def _transformer_layer(kind: str, attentions: Sequence[str], norms: int, parts: Mapping[str, Declared]) -> _Made | None:
    expected = {f"{one}.{part}" for one in attentions for part in _ATTENTION}
    expected |= {f"pwff.{part}" for part in _FEED_FORWARD} | {f"norm_{number + 1}" for number in range(norms)}
    if set(parts) != expected:
        return None
    first = [_attention({part: parts[f"{one}.{part}"] for part in _ATTENTION}) for one in attentions]
    width, inner = parts["pwff.linear_inner"].args.get("in"), parts["pwff.linear_inner"].args.get("out")
    outer = parts["pwff.linear_outer"].args
    biased = all(parts[f"pwff.{part}"].args.get("bias") for part in _FEED_FORWARD)
    normed = all(parts[f"norm_{number + 1}"].kind == "LayerNorm" for number in range(norms))
    if not biased or not normed or (outer.get("in"), outer.get("out")) != (inner, width):
        return None
    if any(made is None or made.kind != "Mha" or made.args.get("d") != width for made in first):
        return None
    return _Made(kind, {"d": width, "ff": inner}, _ORDER_UNKNOWN)


def _attention(parts: Mapping[str, Declared]) -> _Made | None:
    """Return the attention that four biased square projections make up."""
    if set(parts) != set(_ATTENTION) or any(one.kind != "Linear" or not one.args.get("bias") for one in parts.values()):
        return None
    sizes = {(one.args.get("in"), one.args.get("out")) for one in parts.values()}
    width = parts["query"].args.get("in")
    return _Made("Mha", {"d": width}) if sizes == {(width, width)} else None
