"""What a class name, and for unknown classes the attributes, tell about a layer."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from importer.adapters import LAYERS, RefusedLayer, layer_of_class
from tests.adapters.samples import lazy, numbered


def kind_of(class_name: str, attributes: Mapping[str, object] | None = None) -> str | None:
    typed = layer_of_class(class_name, attributes)
    return None if typed is None else typed.kind.name


@pytest.mark.parametrize(
    ("class_name", "kind"),
    [
        ("torch.nn.modules.linear.Linear", "Linear"),
        ("torch.nn.modules.linear.NonDynamicallyQuantizableLinear", "Linear"),
        ("torch.nn.modules.linear._LinearWithBias", "Linear"),
        ("torch.nn.modules.conv.ConvTranspose2d", "ConvTranspose2d"),
        ("torch.nn.modules.batchnorm.SyncBatchNorm", "BatchNorm"),
        ("torch.nn.modules.instancenorm.InstanceNorm1d", "InstanceNorm"),
        ("torch.nn.modules.sparse.EmbeddingBag", "Embedding"),
        ("torch.nn.modules.rnn.GRUCell", "Gru"),
        ("torch.nn.modules.normalization.RMSNorm", "RmsNorm"),
        ("transformers.pytorch_utils.Conv1D", "Conv1D"),
        ("transformers.models.falcon.modeling_falcon.FalconLinear", "Linear"),
        ("transformers.models.llama.modeling_llama.LlamaRMSNorm", "RmsNorm"),
        ("transformers.models.t5.modeling_t5.T5LayerNorm", "RmsNorm"),
        ("transformers.models.convnext.modeling_convnext.ConvNextLayerNorm", "LayerNorm"),
        ("torchvision.ops.misc.FrozenBatchNorm2d", "BatchNorm"),
        ("torchvision.ops.deform_conv.DeformConv2d", "DeformConv2d"),
        ("Linear", "Linear"),
    ],
)
def test_known_classes_have_their_kind(class_name: str, kind: str) -> None:
    assert kind_of(class_name) == kind


@pytest.mark.parametrize(
    "class_name",
    [
        "torch.nn.modules.container.Sequential",
        "torch.nn.modules.transformer.TransformerEncoder",
        "torch.nn.quantized.modules.linear.Linear",
        "torch.ao.nn.quantized.modules.linear.Linear",
        "__main__.Linear",
        "mylib.layers.LlamaRMSNorm",
    ],
)
def test_a_class_that_is_no_layer_for_certain_has_no_kind(class_name: str) -> None:
    assert kind_of(class_name, {"training": False}) is None


CONVOLUTION = {"in_channels": 3, "out_channels": 4, "output_padding": (0, 0)}


@pytest.mark.parametrize(
    ("attributes", "kind"),
    [
        ({"in_features": 3, "out_features": 4}, "Linear"),
        ({"num_embeddings": 3, "embedding_dim": 4}, "Embedding"),
        ({"num_groups": 3, "num_channels": 6, "eps": 1e-5}, "GroupNorm"),
        ({"normalized_shape": (3,), "eps": 1e-5, "elementwise_affine": True}, "LayerNorm"),
        ({"num_parameters": 1}, "PRelu"),
        ({**CONVOLUTION, "kernel_size": (3, 3), "transposed": False}, "Conv2d"),
        ({**CONVOLUTION, "kernel_size": (3,), "transposed": True}, "ConvTranspose1d"),
        ({**CONVOLUTION, "kernel_size": (3,) * 4, "transposed": False}, None),
        ({**CONVOLUTION, "kernel_size": 3, "transposed": False}, None),
        ({"num_features": 3, "eps": 1e-5, "momentum": 0.1, "affine": True, "track_running_stats": True}, None),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_users_subclass_is_told_by_its_base_attributes(attributes: dict[str, object], kind: str | None) -> None:
    assert kind_of("__main__.MyLayer", attributes) == kind


def test_a_library_class_we_do_not_list_is_told_by_its_attributes_too() -> None:
    assert kind_of("timm.layers.linear.Linear", {"in_features": 3, "out_features": 4}) == "Linear"


def test_a_bidirectional_recurrent_layer_is_burns_two_directional_struct() -> None:
    assert kind_of("torch.nn.modules.rnn.LSTM", {"mode": "LSTM", "bidirectional": True}) == "BiLstm"


def test_attention_over_another_width_is_cross_attention() -> None:
    widths = {"embed_dim": 8, "kdim": 6, "vdim": 6}
    assert kind_of("torch.nn.modules.activation.MultiheadAttention", widths) == "CrossAttention"
    assert kind_of("torch.nn.modules.activation.MultiheadAttention", {**widths, "kdim": 8, "vdim": 8}) == "Mha"


@pytest.mark.parametrize(
    ("attributes", "norm_first"),
    [({"training": False, "norm_first": True}, True), ({"training": False}, False), ({}, None)],
    ids=["stored", "older release", "nothing stored"],
)
def test_norm_order_is_read_off_the_saved_layer(attributes: dict[str, object], norm_first: bool | None) -> None:
    typed = layer_of_class("torch.nn.modules.transformer.TransformerEncoderLayer", attributes)
    assert typed is not None
    assert typed.args.get("norm_first") is norm_first


@pytest.mark.parametrize(
    ("class_name", "word"),
    [
        ("torch.nn.modules.linear.Bilinear", "no such layer"),
        ("transformers.models.gemma2.modeling_gemma2.Gemma2RMSNorm", "stored minus one"),
    ],
)
def test_a_class_burn_cannot_hold_is_refused_by_name(class_name: str, word: str) -> None:
    typed = layer_of_class(class_name)
    assert typed is not None
    assert isinstance(typed.kind, RefusedLayer)
    params = {"weight": lazy(numbered(2)), "bias": lazy(numbered(2))}
    for adapted in (typed.kind.to_burn(params, {}), typed.kind.to_torch(params, {})):
        assert [(fault.name, word in fault.message) for fault in adapted.faults] == [("weight", True), ("bias", True)]
        assert adapted.params == ()
    assert typed.kind.burn_params({}) == ()


def test_every_kind_describes_itself() -> None:
    assert all(kind.about and kind.describe().startswith(kind.name) for kind in LAYERS.values())
