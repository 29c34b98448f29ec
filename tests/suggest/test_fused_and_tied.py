"""Fused matrices, single tensors, tied heads, buffers: found, written down, and marked."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from importer.checkpoint import open_checkpoint
from importer.suggest import Draft, draft_recipe
from importer.suggest.target_modules import Shape
from tests.shared import FAMILIES
from tests.suggest.drafted import checkpoint_of, skeleton_of

Shapes = Mapping[str, Shape]


def draft(source: Shapes, target: Shapes) -> Draft:
    return draft_recipe(checkpoint_of(source), skeleton_of(target))


def parts(path: str, names: tuple[str, ...], size_in: int, size_out: int) -> Shapes:
    return {
        f"{path}.{name}.{leaf}": shape
        for name in names
        for leaf, shape in (("weight", (size_in, size_out)), ("bias", (size_out,)))
    }


def test_a_fused_projection_is_split_in_every_layer_by_one_step() -> None:
    source = {f"h.{n}.attn.qkv.{leaf}": s for n in range(2) for leaf, s in (("weight", (12, 4)), ("bias", (12,)))}
    target = {k: s for n in range(2) for k, s in parts(f"layers.{n}.mha", ("query", "key", "value"), 4, 4).items()}
    made = draft(source, target)
    assert made.undecided == ()
    assert made.text.count("split: 3") == 1
    assert "into: ['layers.$1.mha.query.$2', 'layers.$1.mha.key.$2', 'layers.$1.mha.value.$2']" in made.text
    assert {name for mark in made.marks for name in mark.names} == set(target)


def test_a_fused_projection_stored_in_out_is_turned_first() -> None:
    target = parts("mha", ("query", "key", "value"), 4, 4)
    made = draft({"c_attn.weight": (4, 12), "c_attn.bias": (12,)}, target)
    assert made.undecided == ()
    assert "Conv1D: '^mha\\.c_attn$'" in made.text


def test_unequal_parts_are_given_by_size() -> None:
    target = {**parts("a", ("wq",), 4, 8), **parts("a", ("wk", "wv"), 4, 2)}
    made = draft({"a.qkv_proj.weight": (12, 4), "a.qkv_proj.bias": (12,)}, target)
    assert "split: [8, 2, 2]" in made.text
    assert made.undecided == ()


def test_two_alike_siblings_may_come_from_one_matrix() -> None:
    made = draft({"mlp.wi.weight": (16, 4)}, {"mlp.input.weight": (4, 8), "mlp.gate.weight": (4, 8)})
    assert "split: 2" in made.text
    assert "[input | gate]" in made.text


def test_a_head_without_a_matrix_is_tied_to_the_token_embedding() -> None:
    source: Shapes = {"embed_tokens.weight": (9, 4), "head.bias": (9,)}
    made = draft(source, {"tok_embeddings.weight": (9, 4), "output.weight": (4, 9), "output.bias": (9,)})
    assert made.undecided == ()
    assert "output.weight: tok_embeddings.weight" in made.text
    assert "['^head\\.bias$', 'output.bias']" in made.text
    assert {"output.weight", "output.bias"} <= {name for mark in made.marks for name in mark.names}


def test_nothing_is_tied_inside_of_layers() -> None:
    source: Shapes = {"embed_tokens.weight": (9, 4)}
    made = draft(source, {"tok_embeddings.weight": (9, 4), "layers.0.fc.weight": (4, 9)})
    assert made.undecided == ("layers.0.fc.weight [4, 9]: no tensor fits",)


@pytest.mark.parametrize(
    ("name", "shape"),
    [("layers.0.rotary_emb.inv_freq", (4,)), ("position_ids", (1, 8)), ("h.0.attn.masked_bias", ())],
)
def test_known_buffers_are_dropped_without_a_mark(name: str, shape: Shape) -> None:
    made = draft({"fc.weight": (4, 8), "fc.bias": (4,), name: shape}, {"fc.weight": (8, 4), "fc.bias": (4,)})
    assert made.marks == ()
    assert "drop:" in made.text


def test_a_key_projection_without_bias_says_how_to_get_zeros() -> None:
    source: dict[str, Shape] = {f"attn.{n}.weight": (4, 4) for n in ("query", "key", "value", "out")}
    source.update({f"attn.{n}.bias": (4,) for n in ("query", "value", "out")})
    made = draft(source, parts("mha", ("query", "key", "value", "output"), 4, 4))
    assert "mha.key.bias [4]: no tensor fits" in made.undecided
    assert "Mha(d, key_bias=False)" in made.text


def test_torch_attention_becomes_burns_without_a_split() -> None:
    source: Shapes = {
        "attn.in_proj_weight": (12, 4),
        "attn.in_proj_bias": (12,),
        "attn.out_proj.weight": (4, 4),
        "attn.out_proj.bias": (4,),
    }
    made = draft(source, parts("mha", ("query", "key", "value", "output"), 4, 4))
    assert made.undecided == ()
    assert "mha: Mha(4)" in made.text


def test_plain_projections_beside_a_fused_attention_stay_plain() -> None:
    """Both spellings in one file, as in SigLIP's pooling head."""
    source = dict(parts("enc.attn", ("query", "key", "value", "output"), 4, 4).items())
    source |= {"pool.in_proj_weight": (12, 4), "pool.in_proj_bias": (12,)}
    source |= {"pool.out_proj.weight": (4, 4), "pool.out_proj.bias": (4,)}
    target = {
        **parts("enc.mha", ("query", "key", "value", "output"), 4, 4),
        **parts("pool.mha", ("query", "key", "value", "output"), 4, 4),
    }
    assert draft(source, target).undecided == ()


def test_a_second_name_of_a_used_tensor_is_dropped_without_a_mark() -> None:
    made = draft_recipe(
        open_checkpoint(FAMILIES / "bert" / "pytorch_model.bin"),
        skeleton_of({"decoder.weight": (32, 64), "decoder.bias": (64,)}),
    )
    assert "'^cls\\.predictions\\.bias$'" in made.text
    assert "# the same tensor as cls.predictions.decoder.bias" in made.text
