"""Whatever a module holds, every parameter is accounted for: in a piece, dropped, or at fault. Never an exception."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from importer.adapters import LAYERS, Adapted, LayerKind
from importer.arrays import Array, full
from importer.dtypes import F32

LEAVES = (
    *("", "weight", "bias", "gamma", "beta", "alpha", "running_mean", "running_var", "num_batches_tracked"),
    *("weight_g", "weight_v", "weight_u", "weight_orig", "linear1.weight_g", "linear1.weight_v"),
    *("parametrizations.weight.original0", "parametrizations.weight.original1", "parametrizations.weight.original"),
    *("parametrizations.weight.0._u", "parametrizations.weight.0._v", "parametrizations.bias.0.base"),
    *("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "weight_ih_l1_reverse", "weight_hh", "weight_hr_l0"),
    *("0.input_gate.input_transform.weight", "forward.gate.hidden_transform.bias", "new_gate.input_transform.weight"),
    *("in_proj_weight", "in_proj_bias", "q_proj_weight", "k_proj_weight", "v_proj_weight", "bias_k"),
    *("out_proj.weight", "query.weight", "query.bias", "key.weight", "value.weight", "output.bias"),
    *("self_attn.in_proj_weight", "mha.query.weight", "norm1.weight", "norm_2.gamma", "linear1.weight"),
    *("layers.0.norm1.weight", "layers.1.self_attn.out_proj.weight", "norm.weight", "linear_inner.weight"),
)
leaves = st.sampled_from(LEAVES) | st.text("ab.0", min_size=1, max_size=5)
shapes = st.lists(st.sampled_from([0, 1, 2, 3, 4, 12]), max_size=4).map(tuple)
parameters = st.dictionaries(leaves, shapes.map(lambda shape: full(1, F32, shape)), max_size=6)
kinds = st.sampled_from(list(LAYERS.values()))
args = st.sampled_from([{}, {"norm_first": True}, {"norm_first": False, "bias": False}, {"key_bias": False}])


def accounted(adapted: Adapted) -> set[str]:
    """Return every leaf the outcome speaks of."""
    used = {source for piece in adapted.params for source in piece.sources}
    return used | {entry.leaf for entry in adapted.dropped} | {fault.name for fault in adapted.faults}


@given(kind=kinds, params=parameters, args=args)
def test_every_leaf_is_accounted_for_on_the_way_to_burn(
    kind: LayerKind, params: dict[str, Array], args: dict[str, bool]
) -> None:
    adapted = kind.to_burn(params, args)
    assert accounted(adapted) >= params.keys()
    names = [piece.name for piece in adapted.params]
    assert len(names) == len(set(names))


@given(kind=kinds, params=parameters, args=args)
def test_every_leaf_is_accounted_for_on_the_way_to_torch(
    kind: LayerKind, params: dict[str, Array], args: dict[str, bool]
) -> None:
    adapted = kind.to_torch(params, args)
    assert accounted(adapted) >= params.keys()
