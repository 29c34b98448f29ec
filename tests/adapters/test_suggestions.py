"""Suggested `types:` lines; they are only ever printed."""

from __future__ import annotations

import pytest

from importer.adapters import suggest_types

_SPECTRAL = {
    "parametrizations.weight.original": (4, 3, 2, 2),
    "parametrizations.weight.0._u": (4,),
    "parametrizations.weight.0._v": (12,),
}


@pytest.mark.parametrize(
    ("shapes", "kind"),
    [
        ({"weight": (4, 3), "bias": (4,)}, "Linear"),
        ({"weight": (4, 3, 2)}, "Conv1d"),
        ({"weight": (4, 3, 2, 2)}, "Conv2d"),
        ({"weight": (4, 3, 2, 2, 2)}, "Conv3d"),
        ({"weight": (4,), "bias": (4,), "running_mean": (4,)}, "BatchNorm"),
        ({"in_proj_weight": (12, 4)}, "Mha"),
        ({"q_proj_weight": (4, 4)}, "CrossAttention"),
        ({"weight_ih_l0": (8, 3), "weight_hh_l0": (8, 2)}, "Lstm"),
        ({"weight_ih_l0": (6, 3), "weight_hh_l0": (6, 2), "weight_hh_l0_reverse": (6, 2)}, "BiGru"),
        ({"weight_ih_l0": (2, 3), "weight_hh_l0": (2, 2)}, "Rnn"),
        ({"weight": (1,)}, "PRelu"),
        ({"alpha": (4,)}, "PRelu"),
        ({"weight_g": (4, 1, 1), "weight_v": (4, 3, 2)}, "Conv1d"),
        ({"parametrizations.weight.original0": (4, 1, 1), "parametrizations.weight.original1": (4, 3, 2)}, "Conv1d"),
        (_SPECTRAL, "Conv2d"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_module_is_suggested_by_its_leaves(shapes: dict[str, tuple[int, ...]], kind: str) -> None:
    lines = suggest_types({f"net.x.{leaf}": shape for leaf, shape in shapes.items()})
    assert lines == (rf"  - ['^net\.x$', {kind}]",)


@pytest.mark.parametrize(
    ("path", "shapes", "kind"),
    [
        ("wte", {"weight": (9, 4)}, "Embedding"),
        ("up_transpose", {"weight": (4, 3, 2)}, "ConvTranspose1d"),
        ("rms", {"weight": (4,)}, "RmsNorm"),
    ],
)
def test_names_help_where_shapes_do_not(path: str, shapes: dict[str, tuple[int, ...]], kind: str) -> None:
    assert suggest_types({f"{path}.{leaf}": shape for leaf, shape in shapes.items()}) == (f"  - ['^{path}$', {kind}]",)


@pytest.mark.parametrize(
    ("shapes", "line"),
    [
        ({"x.weight": (4, 4), "x.bias": (4,)}, "Linear]   # square: no shape check would notice"),
        ({"x.weight": (4, 3)}, "Linear]   # no bias: an Embedding looks the same"),
        ({"x.weight": (4,), "x.bias": (4,)}, "LayerNorm]   # a GroupNorm looks the same"),
        ({"x.weight": (4,)}, "RmsNorm]   # a LayerNorm without bias or a PRelu looks the same"),
    ],
    ids=["square", "no bias", "norm", "vector"],
)
def test_a_doubtful_suggestion_says_what_is_doubtful(shapes: dict[str, tuple[int, ...]], line: str) -> None:
    (suggestion,) = suggest_types(shapes)
    assert line in suggestion


def test_layers_that_differ_in_their_index_share_a_line() -> None:
    shapes = {f"layers.{n}.fc.{leaf}": shape for n in range(3) for leaf, shape in (("weight", (4, 3)), ("bias", (4,)))}
    assert suggest_types(shapes) == (r"  - ['^layers\.\d+\.fc$', Linear]",)


@pytest.mark.parametrize("shapes", [{"x.weight_hh_l0": (7, 2)}, {"x.in_proj_weight": (10, 4)}, {"x.weight_g": (3, 1)}])
def test_what_looks_like_no_layer_is_kept_as_a_bare_parameter(shapes: dict[str, tuple[int, ...]]) -> None:
    (line,) = suggest_types(shapes)
    assert line.startswith(f"  - ['^{next(iter(shapes)).replace('.', '[.]')}$', Param]".replace("[.]", r"\."))


def test_a_quote_in_a_name_does_not_end_the_pattern() -> None:
    (line,) = suggest_types({"it's.weight": (4, 3), "it's.bias": (4,)})
    assert line == "  - ['^it''s$', Linear]"
