"""Encoders with decoders, and models of sound."""

from __future__ import annotations

from math import sqrt

import numpy as np

from tests.adapters.samples import Values
from tests.numbers import burn_formulas as burn
from tests.numbers.forward.common import (
    ACTIVATIONS,
    causal_mask,
    channels_first,
    channels_last,
    conv,
    convolved,
    dense,
    log_buckets,
    mix,
    normed,
    padding_mask,
    rms,
    self_attention,
)
from tests.numbers.forward.recorded import Run


def _bart_decoder_layer(
    x: Values, memory: Values, layer: burn.Params, heads: int, activation: str, memory_mask: Values
) -> Values:
    """Run TransformerDecoderLayer with norms after each part, as burn::nn computes it, with another activation."""
    own, cross, pwff = (burn.below(layer, name) for name in ("self_attn", "cross_attn", "pwff"))
    x = normed(x + burn.attention(x, x, x, own, heads, causal_mask(x.shape[1])), layer, "norm_1", 1e-5)
    x = normed(x + burn.attention(x, memory, memory, cross, heads, memory_mask), layer, "norm_2", 1e-5)
    return normed(x + burn.feed_forward(x, pwff, activation), layer, "norm_3", 1e-5)


def bart(run: Run) -> dict[str, Values]:
    """Run burn::nn's TransformerEncoder and TransformerDecoder; positions start at row 0, which was row 2."""
    config, params = run.config, run.params
    scale = sqrt(config["d_model"]) if config["scale_embedding"] else 1
    activation = {"gelu": "gelu", "relu": "relu", "gelu_new": "gelu_tanh"}[config["activation_function"]]

    def embedded(side: str, ids: Values) -> Values:
        x = params["shared.weight"][ids] * scale
        x = x + params[f"{side}.position_embedding.weight"][: ids.shape[1]]
        return normed(x, params, f"{side}.embedding_norm", 1e-5)

    memory, mask = embedded("encoder", run.inputs["input_ids"]), padding_mask(run.inputs)
    for number in range(config["encoder_layers"]):
        layer, heads = burn.below(params, f"encoder.layers.{number}"), config["encoder_attention_heads"]
        memory = burn.encoder_layer(memory, layer, heads=heads, norm_first=False, activation=activation, mask=mask)
    x = embedded("decoder", run.inputs["decoder_input_ids"])
    for number in range(config["decoder_layers"]):
        layer, heads = burn.below(params, f"decoder.layers.{number}"), config["decoder_attention_heads"]
        x = _bart_decoder_layer(x, memory, layer, heads, activation, mask)
    if "lm_head.weight" not in params:
        return {"last_hidden_state": x}
    return {"logits": dense(x, params, "lm_head") + params.get("final_logits_bias", np.zeros(1))}


def t5(run: Run) -> dict[str, Values]:
    """Add a bias by distance to unscaled scores; a tied head reads states times d_model ** -0.5."""
    config, params = run.config, run.params
    eps, heads = config["layer_norm_epsilon"], config["num_heads"]
    buckets, distance = config["relative_attention_num_buckets"], config["relative_attention_max_distance"]
    activation = ACTIVATIONS["gelu_new" if config["feed_forward_proj"] == "gated-gelu" else config["dense_act_fn"]]

    def attention(x: Values, memory: Values, layer: burn.Params, bias: Values) -> Values:
        query = burn.heads_of(dense(x, layer, "q"), heads)
        key, value = (burn.heads_of(dense(memory, layer, name), heads) for name in ("k", "v"))
        return dense(mix(query, key, value, bias, 1.0), layer, "o")

    def feed_forward(x: Values, layer: burn.Params) -> Values:
        gated = "wi_0.weight" in layer
        hidden = activation(dense(x, layer, "wi_0" if gated else "wi"))
        return dense(hidden * dense(x, layer, "wi_1") if gated else hidden, layer, "wo")

    def distances(side: str, size: int, number: int) -> Values:
        found = log_buckets((size, size), buckets, distance, both_ways=side == "encoder")
        own = f"{side}.layers.{number}.self_attn.relative_attention_bias.weight"  # UMT5 has one in every layer
        table = params[own if own in params else f"{side}.relative_attention_bias.weight"]
        return np.moveaxis(table[found], -1, 0)

    def stack(side: str, ids: Values, count: int, memory: Values | None) -> Values:
        x, size = params["shared.weight"][ids], ids.shape[1]
        mask = padding_mask(run.inputs) if memory is None else causal_mask(size)
        for number in range(count):
            bias = distances(side, size, number) + mask
            layer = burn.below(params, f"{side}.layers.{number}")
            inner = rms(x, layer, "self_attn_norm", eps)
            x = x + attention(inner, inner, burn.below(layer, "self_attn"), bias)
            if memory is not None:
                inner = rms(x, layer, "cross_attn_norm", eps)
                x = x + attention(inner, memory, burn.below(layer, "cross_attn"), padding_mask(run.inputs))
            x = x + feed_forward(rms(x, layer, "ff_norm", eps), burn.below(layer, "ff"))
        return rms(x, params, f"{side}.norm", eps)

    memory = stack("encoder", run.inputs["input_ids"], config["num_layers"], None)
    if "decoder_input_ids" not in run.inputs:
        return {"last_hidden_state": memory}
    x = stack("decoder", run.inputs["decoder_input_ids"], config["num_decoder_layers"], memory)
    scaled = config.get(
        "scale_decoder_outputs", config["model_type"] == "t5" and config.get("tie_word_embeddings", True)
    )
    return {"logits": dense(x * config["d_model"] ** -0.5 if scaled else x, params, "lm_head")}


def whisper(run: Run) -> dict[str, Values]:
    """Convolve twice (the second one halves the time), then pre-norm blocks of burn::nn's MultiHeadAttention."""
    config, params = run.config, run.params
    activation = ACTIVATIONS[config["activation_function"]]

    def feed_forward(x: Values, layer: burn.Params) -> Values:
        return dense(activation(dense(normed(x, layer, "mlp_norm", 1e-5), layer, "fc1")), layer, "fc2")

    x = activation(convolved(run.inputs["input_features"], params, "encoder.conv1", 1, 1))
    x = activation(convolved(x, params, "encoder.conv2", 2, 1)).swapaxes(1, 2)
    x = x + params["encoder.position_embedding.weight"]
    for number in range(config["encoder_layers"]):
        layer, heads = burn.below(params, f"encoder.layers.{number}"), config["encoder_attention_heads"]
        inner = normed(x, layer, "attn_norm", 1e-5)
        x = x + burn.attention(inner, inner, inner, burn.below(layer, "attn"), heads)
        x = x + feed_forward(x, layer)
    memory = normed(x, params, "encoder.norm", 1e-5)
    ids = run.inputs["decoder_input_ids"]
    scale = sqrt(config["d_model"]) if config["scale_embedding"] else 1
    x = params["decoder.token_embedding.weight"][ids] * scale
    x = x + params["decoder.position_embedding.weight"][: ids.shape[1]]
    for number in range(config["decoder_layers"]):
        layer, heads = burn.below(params, f"decoder.layers.{number}"), config["decoder_attention_heads"]
        inner = normed(x, layer, "attn_norm", 1e-5)
        x = x + burn.attention(inner, inner, inner, burn.below(layer, "attn"), heads, causal_mask(ids.shape[1]))
        inner = normed(x, layer, "cross_attn_norm", 1e-5)
        x = x + burn.attention(inner, memory, memory, burn.below(layer, "cross_attn"), heads)
        x = x + feed_forward(x, layer)
    x = normed(x, params, "decoder.norm", 1e-5)
    if "decoder.proj_out.weight" not in params:
        return {"last_hidden_state": x}
    return {"logits": dense(x, params, "decoder.proj_out")}


def _group_norm(x: Values, params: burn.Params, groups: int, eps: float = 1e-5) -> Values:
    grouped = x.reshape(x.shape[0], groups, -1)
    centred = grouped - grouped.mean(-1, keepdims=True)
    plain = (centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps)).reshape(x.shape)
    shape = (1, -1, *(1,) * (x.ndim - 2))
    return np.asarray(plain * params["gamma"].reshape(shape) + params["beta"].reshape(shape))


def wav2vec2(run: Run) -> dict[str, Values]:
    """Convolve the waveform, add a grouped positional convolution, then blocks with norms after or before each part."""
    config, params = run.config, run.params
    eps, heads = config["layer_norm_eps"], config["num_attention_heads"]
    activation = ACTIVATIONS[config["feat_extract_activation"]]
    x = run.inputs["input_values"][:, None]
    for number, stride in enumerate(config["conv_stride"]):
        layer = burn.below(params, f"feature_extractor.conv_layers.{number}")
        x = convolved(x, layer, "conv", stride)
        if "group_norm.gamma" in layer:
            x = _group_norm(x, burn.below(layer, "group_norm"), x.shape[1])
        if "layer_norm.gamma" in layer:
            x = channels_first(normed(channels_last(x), layer, "layer_norm", 1e-5))
        x = activation(x)
    x = channels_last(x)
    if "feature_projection.layer_norm.gamma" in params:
        x = normed(x, params, "feature_projection.layer_norm", eps)
    x = dense(x, params, "feature_projection.projection")
    width = config["num_conv_pos_embeddings"]
    positions = conv(
        x.swapaxes(1, 2),
        burn.below(params, "encoder.pos_conv_embed.conv"),
        1,
        width // 2,
        config["num_conv_pos_embedding_groups"],
    )
    positions = positions[..., :-1] if width % 2 == 0 else positions  # an even kernel gives one step too many
    x = x + activation(positions).swapaxes(1, 2)
    first = config["do_stable_layer_norm"]
    x = x if first else normed(x, params, "encoder.layer_norm", eps)
    no_mask = np.zeros((1, 1, 1, 1))
    for number in range(config["num_hidden_layers"]):
        layer = burn.below(params, f"encoder.layers.{number}")
        inner = normed(x, layer, "layer_norm", eps) if first else x
        own = burn.below(layer, "attention")
        x = x + self_attention(inner, own, heads, no_mask, "q_proj k_proj v_proj out_proj")
        x = x if first else normed(x, layer, "layer_norm", eps)
        inner = normed(x, layer, "final_layer_norm", eps) if first else x
        hidden = ACTIVATIONS[config["hidden_act"]](dense(inner, layer, "feed_forward.intermediate_dense"))
        x = x + dense(hidden, layer, "feed_forward.output_dense")
        x = x if first else normed(x, layer, "final_layer_norm", eps)
    x = normed(x, params, "encoder.layer_norm", eps) if first else x
    return {"logits": dense(x, params, "lm_head")} if "lm_head.weight" in params else {"last_hidden_state": x}
