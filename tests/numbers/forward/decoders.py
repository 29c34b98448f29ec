"""Language models that read from left to right."""

from __future__ import annotations

from functools import partial
from math import sqrt
from typing import Any

import numpy as np

from tests.adapters.samples import Values
from tests.numbers import burn_formulas as burn
from tests.numbers.forward.common import (
    ACTIVATIONS,
    alibi_slopes,
    causal_mask,
    dense,
    mix,
    normed,
    rms,
    rotate_half,
    rotate_pairs,
    theta_of,
)
from tests.numbers.forward.recorded import Run


def _capped(x: Values, cap: float | None) -> Values:
    return x if cap is None else np.tanh(x / cap) * cap


def _projections(x: Values, layer: burn.Params, config: dict[str, Any]) -> list[Values]:
    """Return query, key and value of llama-burn's attention, with whatever norms the family has on them."""
    eps = config["rms_norm_eps"]
    groups = config.get("num_key_value_heads") or config["num_attention_heads"]
    parts = []
    for letter, heads in (("q", config["num_attention_heads"]), ("k", groups), ("v", groups)):
        part = dense(x, layer, f"attention.w{letter}")
        gamma = layer.get(f"attention.{letter}_norm.gamma")
        whole = gamma is not None and gamma.size == part.shape[-1]
        if whole:
            part = rms(part, layer, f"attention.{letter}_norm", eps)
        part = burn.heads_of(part, heads)
        if gamma is not None and not whole:
            part = rms(part, layer, f"attention.{letter}_norm", eps)
        parts.append(part)
    return parts


def _attention(x: Values, layer: burn.Params, config: dict[str, Any], kind: str) -> Values:
    query, key, value = _projections(x, layer, config)
    rope = config.get("rope_parameters") or {}
    share = rope.get("partial_rotary_factor") or config.get("partial_rotary_factor") or 1
    rotating = int(query.shape[-1] * share)
    if kind != _UNROTATED:
        query, key = (rotate_pairs(part, theta_of(config, kind), rotating) for part in (query, key))
    window = config.get("sliding_window") if kind == "sliding_attention" else None
    scale = config.get("attention_multiplier") or (config.get("query_pre_attn_scalar") or query.shape[-1]) ** -0.5
    cap = config.get("attn_logit_softcapping")
    key, value = (np.repeat(part, query.shape[1] // key.shape[1], axis=1) for part in (key, value))
    scores = _capped(query @ key.swapaxes(-1, -2) * scale, cap) + causal_mask(x.shape[1], window)
    mixed = (burn.softmax(scores) @ value).swapaxes(1, 2)
    return dense(mixed.reshape(*x.shape[:2], -1), layer, "attention.wo")


def _swiglu(x: Values, layer: burn.Params, activation: str) -> Values:
    inner = dense(x, layer, "feed_forward.swiglu.linear_inner")
    return dense(
        ACTIVATIONS[activation](inner) * dense(x, layer, "feed_forward.swiglu.linear_outer"), layer, "feed_forward.w2"
    )


def _experts(x: Values, layer: burn.Params, config: dict[str, Any]) -> Values:
    """Mix the best experts of each token; Mixtral always, Qwen3 only if the config says so, makes their weights sum to 1."""
    shares = burn.softmax(dense(x, layer, "moe.router"))
    best = np.argsort(-shares, -1)[..., : config["num_experts_per_tok"]]
    kept = np.zeros_like(shares)
    np.put_along_axis(kept, best, np.take_along_axis(shares, best, -1), -1)
    if config.get("norm_topk_prob", True):
        kept /= kept.sum(-1, keepdims=True)
    gate = burn.silu(np.einsum("btd,edf->btef", x, layer["moe.w1"]))
    hidden = gate * np.einsum("btd,edf->btef", x, layer["moe.w3"])
    return np.asarray(np.einsum("btef,efd,bte->btd", hidden, layer["moe.w2"], kept))


_UNROTATED = "unrotated_attention"
"""Of SmolLM3: one layer of four."""


def _layer_kind(config: dict[str, Any], number: int) -> str:
    if not (config.get("no_rope_layers") or [1] * (number + 1))[number]:
        return _UNROTATED
    kinds = config.get("layer_types")
    if kinds:
        return str(kinds[number])
    return "sliding_attention" if config.get("sliding_window") else "full_attention"


_AFTER = {"attention_norm": "post_attention_norm", "ffn_norm": "post_ffn_norm"}


def llama_like(run: Run) -> dict[str, Values]:
    """Run llama-burn's Transformer as the families vary it: norms, experts, caps, scales."""
    config, params, ids = run.config, run.params, run.inputs["input_ids"]
    eps = config["rms_norm_eps"]
    activation = config.get("hidden_activation") or config.get("hidden_act") or "silu"
    x = params["tok_embeddings.weight"][ids]
    if config["model_type"].startswith("gemma"):
        x = x * sqrt(config["hidden_size"])
    x = x * config.get("embedding_multiplier", 1)  # this multiplier and the others are Granite's
    for number in range(config["num_hidden_layers"]):
        layer = burn.below(params, f"layers.{number}")
        kind, sparse = _layer_kind(config, number), "moe.router.weight" in layer
        attend = partial(_attention, layer=layer, config=config, kind=kind)
        feed = partial(_experts, config=config) if sparse else partial(_swiglu, activation=activation)
        for part, norm in ((attend, "attention_norm"), (partial(feed, layer=layer), "ffn_norm")):
            before, after = ("", norm) if config["model_type"].startswith("olmo") else (norm, _AFTER[norm])
            made = part(rms(x, layer, before, eps) if before else x)
            made = rms(made, layer, after, eps) if f"{after}.gamma" in layer else made
            x = x + made * config.get("residual_multiplier", 1)
    x = rms(x, params, "norm", eps)
    if "output.weight" not in params:
        return {"last_hidden_state": x}
    logits = dense(x, params, "output") / config.get("logits_scaling", 1)
    return {"logits": _capped(logits, config.get("final_logit_softcapping"))}


def gpt2(run: Run) -> dict[str, Values]:
    """Run burn::nn's TransformerEncoder with norm_first over token and position embeddings."""
    config, params, ids = run.config, run.params, run.inputs["input_ids"]
    x = params["token_embedding.weight"][ids] + params["position_embedding.weight"][: ids.shape[1]]
    for number in range(config["n_layer"]):
        x = burn.encoder_layer(
            x,
            burn.below(params, f"layers.{number}"),
            heads=config["n_head"],
            norm_first=True,
            activation="gelu_tanh",
            mask=causal_mask(ids.shape[1]),
            eps=config["layer_norm_epsilon"],
        )
    x = normed(x, params, "norm", config["layer_norm_epsilon"])
    return {"logits": dense(x, params, "lm_head")} if "lm_head.weight" in params else {"last_hidden_state": x}


def opt(run: Run) -> dict[str, Values]:
    """Run burn::nn's TransformerEncoder with ReLU; OPT-350m normalises after each part and projects in and out."""
    config, params, ids = run.config, run.params, run.inputs["input_ids"]
    first = config["do_layer_norm_before"]
    x = params["token_embedding.weight"][ids]
    if "project_in.weight" in params:
        x = dense(x, params, "project_in")
    x = x + params["position_embedding.weight"][: ids.shape[1]]
    for number in range(config["num_hidden_layers"]):
        x = burn.encoder_layer(
            x,
            burn.below(params, f"layers.{number}"),
            heads=config["num_attention_heads"],
            norm_first=first,
            activation=config["activation_function"],
            mask=causal_mask(ids.shape[1]),
        )
    if "norm.gamma" in params:
        x = normed(x, params, "norm", 1e-5)
    if "project_out.weight" in params:
        x = dense(x, params, "project_out")
    return {"logits": dense(x, params, "lm_head")}


def gpt_neox(run: Run) -> dict[str, Values]:
    """Rotate half, of part of each head; attention and feed-forward beside each other or one after the other."""
    config, params, ids = run.config, run.params, run.inputs["input_ids"]
    eps, heads = config["layer_norm_eps"], config["num_attention_heads"]
    share = config["rope_parameters"].get("partial_rotary_factor") or config.get("rotary_pct") or 0.25
    activation = ACTIVATIONS[config["hidden_act"]]
    x = params["embed_in.weight"][ids]
    for number in range(config["num_hidden_layers"]):
        layer = burn.below(params, f"layers.{number}")
        inner = normed(x, layer, "input_layernorm", eps)
        query, key, value = (
            burn.heads_of(dense(inner, layer, f"attention.{name}"), heads) for name in ("query", "key", "value")
        )
        width = query.shape[-1]
        query, key = (rotate_half(part, theta_of(config), int(width * share)) for part in (query, key))
        attended = dense(mix(query, key, value, causal_mask(ids.shape[1]), width**-0.5), layer, "attention.dense")
        middle = x if config["use_parallel_residual"] else x + attended
        hidden = activation(dense(normed(middle, layer, "post_attention_layernorm", eps), layer, "mlp.dense_h_to_4h"))
        x = x + attended + dense(hidden, layer, "mlp.dense_4h_to_h")
    return {"logits": dense(normed(x, params, "final_layer_norm", eps), params, "lm_head")}


def bloom(run: Run) -> dict[str, Values]:
    """Add ALiBi, unscaled, to scaled scores; the feed-forward's GELU is the tanh form."""
    config, params, ids = run.config, run.params, run.inputs["input_ids"]
    eps, heads = config["layer_norm_epsilon"], config["n_head"]
    after = config["apply_residual_connection_post_layernorm"]
    bias = alibi_slopes(heads)[:, None, None] * np.arange(ids.shape[1]) + causal_mask(ids.shape[1])
    x = normed(params["word_embeddings.weight"][ids], params, "word_embeddings_layernorm", eps)
    for number in range(config["n_layer"]):
        layer = burn.below(params, f"h.{number}")
        inner = normed(x, layer, "input_layernorm", eps)
        query, key, value = (
            burn.heads_of(dense(inner, layer, f"self_attention.{name}"), heads) for name in ("query", "key", "value")
        )
        attended = mix(query, key, value, bias, query.shape[-1] ** -0.5)
        x = (inner if after else x) + dense(attended, layer, "self_attention.dense")
        inner = normed(x, layer, "post_attention_layernorm", eps)
        hidden = burn.gelu_tanh(dense(inner, layer, "mlp.dense_h_to_4h"))
        x = (inner if after else x) + dense(hidden, layer, "mlp.dense_4h_to_h")
    return {"logits": dense(normed(x, params, "ln_f", eps), params, "lm_head")}


def falcon(run: Run) -> dict[str, Values]:
    """Rotate half or add ALiBi; the norms tell where the feed-forward reads from."""
    config, params, ids = run.config, run.params, run.inputs["input_ids"]
    eps, heads = config["layer_norm_epsilon"], config["num_attention_heads"]
    width = config["hidden_size"] // heads
    bias = causal_mask(ids.shape[1])
    if config["alibi"]:
        slopes = alibi_slopes(heads)[:, None, None] * np.arange(ids.shape[1])
        # Falcon scales ALiBi with the scores; transformers' eager attention, which recorded the outputs, adds it twice.
        bias = 2 * slopes * width**-0.5 + bias
    x = params["word_embeddings.weight"][ids]
    for number in range(config["num_hidden_layers"]):
        layer = burn.below(params, f"h.{number}")
        two = "ln_attn.gamma" in layer
        inner = normed(x, layer, "ln_attn" if two else "input_layernorm", eps)
        query, key, value = (
            burn.heads_of(projected, projected.shape[-1] // width)
            for projected in (dense(inner, layer, f"self_attention.{name}") for name in ("query", "key", "value"))
        )
        if not config["alibi"]:
            query, key = (rotate_half(part, theta_of(config)) for part in (query, key))
        attended = dense(mix(query, key, value, bias, width**-0.5), layer, "self_attention.dense")
        if "post_attention_layernorm.gamma" in layer:
            inner = normed(x + attended, layer, "post_attention_layernorm", eps)
        elif two:
            inner = normed(x, layer, "ln_mlp", eps)
        hidden = ACTIVATIONS[config["activation"]](dense(inner, layer, "mlp.dense_h_to_4h"))
        x = x + attended + dense(hidden, layer, "mlp.dense_4h_to_h")
    return {"logits": dense(normed(x, params, "ln_f", eps), params, "lm_head")}


def mamba(run: Run) -> dict[str, Values]:
    """Scan the state space one step at a time; in_proj holds [hidden | gate], x_proj [time step | B | C]."""
    config, params, ids = run.config, run.params, run.inputs["input_ids"]
    eps, state, rank = config["layer_norm_epsilon"], config["state_size"], config["time_step_rank"]
    x = params["embeddings.weight"][ids]
    for number in range(config["num_hidden_layers"]):
        layer = burn.below(params, f"layers.{number}")
        mixer = burn.below(layer, "mixer")
        hidden, gate = np.split(dense(rms(x, layer, "norm", eps), mixer, "in_proj"), 2, -1)
        kernel = mixer["conv1d.weight"][:, 0]
        padded = np.pad(hidden, ((0, 0), (kernel.shape[1] - 1, 0), (0, 0)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, kernel.shape[1], axis=1)
        bias = mixer.get("conv1d.bias", np.zeros(1))
        hidden = burn.silu(np.einsum("btck,ck->btc", windows, kernel) + bias)
        step, b, c = np.split(dense(hidden, mixer, "x_proj"), [rank, rank + state], -1)
        step = np.log1p(np.exp(dense(step, mixer, "dt_proj")))
        decay = -np.exp(mixer["a_log"])
        held = np.zeros((ids.shape[0], *decay.shape))
        outputs = []
        for time in range(ids.shape[1]):
            dt = step[:, time, :, None]
            held = np.exp(dt * decay) * held + dt * b[:, time, None, :] * hidden[:, time, :, None]
            outputs.append((held @ c[:, time, :, None])[..., 0])
        scanned = np.stack(outputs, 1) + hidden * mixer["d"]
        x = x + dense(scanned * burn.silu(gate), mixer, "out_proj")
    return {"logits": dense(rms(x, params, "norm_f", eps), params, "lm_head")}
