"""Layers taken to Burn compute what torch computed: an error in order or layout would show here, where shapes are silent."""

from __future__ import annotations

import numpy as np
import pytest

from importer.adapters import LAYERS
from importer.arrays import elementwise, to_numpy
from tests.adapters.samples import Values, lazy
from tests.numbers import burn_formulas as burn
from tests.numbers.reference import assert_close, case


def test_a_square_linear() -> None:
    recorded = case("linear")
    assert_close(burn.linear(recorded.inputs[0], recorded.in_burn("Linear")), recorded.output)


@pytest.mark.parametrize("name", ["batch_norm", "batch_norm_without_affine"])
def test_batch_norm(name: str) -> None:
    recorded = case(name)
    assert_close(burn.batch_norm(recorded.inputs[0], recorded.in_burn("BatchNorm")), recorded.output)


def test_gemma_norm_with_one_added() -> None:
    recorded = case("gemma_norm")
    weight = elementwise(lazy(recorded.state["weight"]), "1 + x")
    params = LAYERS["RmsNorm"].to_burn({"weight": weight}, {})
    gamma = {piece.name: to_numpy(piece.array) for piece in params.params}
    assert_close(burn.rms_norm(recorded.inputs[0], gamma, eps=1e-6), recorded.output)


def in_both_directions(x: Values, params: burn.Params, run: str) -> Values:
    function = {"lstm": burn.lstm, "gru": burn.gru}[run]
    forward = function(x, burn.below(params, "forward"))
    reverse = function(x[:, ::-1], burn.below(params, "reverse"))[:, ::-1]
    return np.concatenate([forward, reverse], -1)


@pytest.mark.parametrize("kind", ["Lstm", "BiLstm"])
def test_lstm_of_two_layers_and_two_directions(kind: str) -> None:
    recorded = case("lstm")
    params = recorded.in_burn(kind)
    x = recorded.inputs[0]
    for layer in range(2):
        x = in_both_directions(x, burn.below(params, str(layer)), "lstm")
    assert_close(x, recorded.output)


def test_lstm_cell() -> None:
    recorded = case("lstm_cell")
    zeros = np.zeros((2, 4), np.float32)
    hidden, _ = burn.lstm_step(recorded.inputs[0], zeros, zeros, recorded.in_burn("Lstm"))
    assert_close(hidden, recorded.output)


def test_gru_of_two_directions() -> None:
    recorded = case("gru")
    assert_close(in_both_directions(recorded.inputs[0], recorded.in_burn("BiGru"), "gru"), recorded.output)


def test_rnn_of_two_layers_without_bias() -> None:
    recorded = case("rnn")
    params = recorded.in_burn("Rnn")
    x = recorded.inputs[0]
    for layer in range(2):
        x = burn.rnn(x, burn.below(params, str(layer)))
    assert_close(x, recorded.output)


@pytest.mark.parametrize(("name", "kind"), [("mha", "Mha"), ("cross_attention", "CrossAttention")])
def test_attention(name: str, kind: str) -> None:
    recorded = case(name)
    query, key, value = recorded.inputs
    assert_close(burn.attention(query, key, value, recorded.in_burn(kind), heads=2), recorded.output)


@pytest.mark.parametrize("norm_first", [False, True], ids=["post_norm", "pre_norm"])
def test_transformer_encoder_layer(norm_first: bool) -> None:
    recorded = case(f"encoder_layer_{'pre' if norm_first else 'post'}_norm")
    params = recorded.in_burn("TransformerEncoderLayer", {"norm_first": norm_first})
    ours = burn.encoder_layer(recorded.inputs[0], params, heads=2, norm_first=norm_first, activation="relu")
    assert_close(ours, recorded.output)


@pytest.mark.parametrize("norm_first", [False, True], ids=["post_norm", "pre_norm"])
def test_transformer_decoder_layer(norm_first: bool) -> None:
    recorded = case(f"decoder_layer_{'pre' if norm_first else 'post'}_norm")
    params = recorded.in_burn("TransformerDecoderLayer", {"norm_first": norm_first})
    target, memory = recorded.inputs
    ours = burn.decoder_layer(target, memory, params, heads=2, norm_first=norm_first)
    assert_close(ours, recorded.output)


@pytest.mark.parametrize("name", ["weight_norm_dim_0", "weight_norm_dim_1", "weight_norm_all", "weight_norm_hook"])
def test_weight_norm_is_fused(name: str) -> None:
    recorded = case(name)
    assert_close(burn.linear(recorded.inputs[0], recorded.in_burn("Linear")), recorded.output)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("weight_norm_transposed", "ConvTranspose1d"),
        ("spectral_norm", "Conv2d"),
        ("spectral_norm_transposed", "ConvTranspose2d"),
    ],
)
def test_normed_kernels_equal_the_weight_torch_computes_with(name: str, kind: str) -> None:
    recorded = case(name)
    assert_close(recorded.in_burn(kind)["weight"], recorded.output)


def test_spectral_norm_by_hook_equals_the_weight_torch_computes_with() -> None:
    recorded = case("spectral_norm_hook")
    assert_close(recorded.in_burn("Linear")["weight"].T, recorded.output)
