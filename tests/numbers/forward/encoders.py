"""Text encoders: everything that looks both ways and stops before padding."""

from __future__ import annotations

from math import log, sqrt
from typing import Any

import numpy as np

from tests.adapters.samples import Values
from tests.numbers import burn_formulas as burn
from tests.numbers.forward.common import (
    ACTIVATIONS,
    dense,
    log_buckets,
    mix,
    normed,
    padding_mask,
    rotate_half,
    self_attention,
    theta_of,
)
from tests.numbers.forward.recorded import Run

_BURN_ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu"}


def _embedded(run: Run, prefix: str = "embeddings", *, after: int | None = None) -> Values:
    """Sum words, positions and token types, and normalise.

    RoBERTa and its relatives count positions from `after` + 1, and only over tokens that are not padding.
    """
    params, ids, eps = run.params, run.inputs["input_ids"], run.config.get("layer_norm_eps", 1e-12)
    x = params[f"{prefix}.word_embeddings.weight"][ids]
    positions = np.broadcast_to(np.arange(ids.shape[1]), ids.shape)
    if after is not None:
        real = ids != after
        positions = np.cumsum(real, 1) * real + after
    if f"{prefix}.position_embeddings.weight" in params:
        x = x + params[f"{prefix}.position_embeddings.weight"][positions]
    if f"{prefix}.token_type_embeddings.weight" in params:
        kinds = run.inputs.get("token_type_ids", np.zeros_like(ids))
        x = x + params[f"{prefix}.token_type_embeddings.weight"][kinds]
    return normed(x, params, f"{prefix}.layer_norm", eps)


def _classified(x: Values, params: burn.Params, config: dict[str, Any]) -> dict[str, Values]:
    """Run the task head that is there: of each token, of the first one, or of a span."""
    if "qa_outputs.weight" in params:
        start, end = np.moveaxis(dense(x, params, "qa_outputs"), -1, 0)
        return {"start_logits": start, "end_logits": end}
    if "classifier.out_proj.weight" in params:  # RoBERTa's classifier
        return {"logits": dense(np.tanh(dense(x[:, 0], params, "classifier.dense")), params, "classifier.out_proj")}
    if "pre_classifier.weight" in params:  # DistilBERT's
        return {"logits": dense(burn.relu(dense(x[:, 0], params, "pre_classifier")), params, "classifier")}
    pooler = next(
        (path for path in ("pooler.output", "albert.pooler", "pooler.dense") if f"{path}.weight" in params), ""
    )
    if pooler:
        pooled = dense(x[:, 0], params, pooler)
        x = ACTIVATIONS[config["pooler_hidden_act"]](pooled) if pooler == "pooler.dense" else np.tanh(pooled)
    return {"logits": dense(x, params, "classifier")}


def _has_task_head(params: burn.Params) -> bool:
    return any(f"{path}.weight" in params for path in ("qa_outputs", "classifier", "classifier.out_proj"))


def _pooled(x: Values, params: burn.Params, path: str) -> dict[str, Values]:
    """Return the pooled output where the model has it."""
    outputs = {"last_hidden_state": x}
    if f"{path}.weight" in params:
        outputs["pooler_output"] = np.tanh(dense(x[:, 0], params, path))
    return outputs


def bert(run: Run) -> dict[str, Values]:
    """Run burn::nn's TransformerEncoder with norms after each part: BERT, MiniLM, RoBERTa, DistilBERT."""
    config, params = run.config, run.params
    eps = config.get("layer_norm_eps", 1e-12)
    after = (
        config["pad_token_id"]
        if config["model_type"] in {"camembert", "data2vec-text", "roberta", "xlm-roberta"}
        else None
    )
    prefix = "bert." if "bert.embeddings.word_embeddings.weight" in params else ""
    x = _embedded(run, f"{prefix}embeddings", after=after)
    for number in range(config.get("num_hidden_layers") or config["n_layers"]):
        x = burn.encoder_layer(
            x,
            burn.below(params, f"{prefix}encoder.layers.{number}"),
            heads=config.get("num_attention_heads") or config["n_heads"],
            norm_first=False,
            activation=_BURN_ACTIVATIONS[config.get("hidden_act") or config["activation"]],
            mask=padding_mask(run.inputs),
            eps=eps,
        )
    return _finished(x, params, config, "pooler.output")


def _finished(x: Values, params: burn.Params, config: dict[str, Any], pooler: str) -> dict[str, Values]:
    """Run whatever stands on the encoder."""
    if "lm_head.decoder.weight" in params:
        hidden = burn.gelu(dense(x, params, "lm_head.dense"))
        hidden = normed(hidden, params, "lm_head.layer_norm", config.get("layer_norm_eps", 1e-12))
        return {"logits": dense(hidden, params, "lm_head.decoder")}
    return _classified(x, params, config) if _has_task_head(params) else _pooled(x, params, pooler)


def albert(run: Run) -> dict[str, Values]:
    """Apply one layer again and again, after a projection of the narrow embeddings."""
    config, params = run.config, run.params
    eps, activation = config["layer_norm_eps"], config["hidden_act"]
    x = dense(_embedded(run, "albert.embeddings"), params, "albert.encoder.projection")
    for _ in range(config["num_hidden_layers"]):
        x = burn.encoder_layer(
            x,
            burn.below(params, "albert.encoder.layer"),
            heads=config["num_attention_heads"],
            norm_first=False,
            activation=_BURN_ACTIVATIONS[activation],
            mask=padding_mask(run.inputs),
            eps=eps,
        )
    if "mlm_dense.weight" in params:
        hidden = normed(ACTIVATIONS[activation](dense(x, params, "mlm_dense")), params, "mlm_layer_norm", eps)
        words = params["albert.embeddings.word_embeddings.weight"]
        return {"logits": hidden @ words.T + params["mlm_decoder_bias"]}
    return _finished(x, params, config, "albert.pooler")


def _post_norm_block(x: Values, layer: burn.Params, attended: Values, activation: str, eps: float) -> Values:
    """Finish a block of own attention: norm_1, feed-forward, norm_2."""
    x = normed(x + attended, layer, "norm_1", eps)
    hidden = ACTIVATIONS[activation](dense(x, layer, "pwff.linear_inner"))
    return normed(x + dense(hidden, layer, "pwff.linear_outer"), layer, "norm_2", eps)


def mpnet(run: Run) -> dict[str, Values]:
    """Add one bias by distance, shared by all layers, to the scaled scores."""
    config, params = run.config, run.params
    eps, heads = config["layer_norm_eps"], config["num_attention_heads"]
    x = _embedded(run, after=1)
    size = x.shape[1]
    buckets = log_buckets((size, size), config["relative_attention_num_buckets"], 128, both_ways=True)
    bias = np.moveaxis(params["encoder.relative_attention_bias.weight"][buckets], -1, 0) + padding_mask(run.inputs)
    for number in range(config["num_hidden_layers"]):
        layer = burn.below(params, f"encoder.layers.{number}")
        attended = self_attention(x, burn.below(layer, "attention"), heads, bias)
        x = _post_norm_block(x, layer, attended, config["hidden_act"], eps)
    return _finished(x, params, config, "pooler.output")


def _deberta_positions(size: int, buckets: int, furthest: int) -> Values:
    """Return query minus key, in logarithmic buckets beyond half of them."""
    relative = np.arange(size)[:, None] - np.arange(size)
    if buckets <= 0:
        return relative
    middle = buckets // 2
    away = np.where(abs(relative) < middle, middle - 1, abs(relative)).astype(np.float32)
    steps = np.ceil(np.log(away / middle) / np.float32(log((furthest - 1) / middle)) * (middle - 1)) + middle
    return np.where(away <= middle, relative, steps * np.sign(relative)).astype(int)


def deberta(run: Run) -> dict[str, Values]:
    """Score content by content, content by distance and distance by content, divided by sqrt(3 * head_dim)."""
    config, params = run.config, run.params
    eps, heads = config["layer_norm_eps"], config["num_attention_heads"]
    kinds = config["pos_att_type"] or []
    x = _embedded(run)
    size = x.shape[1]
    furthest = config["max_relative_positions"]
    furthest = furthest if furthest > 0 else config["max_position_embeddings"]
    buckets = config.get("position_buckets", -1)
    span = buckets if buckets > 0 else furthest
    relative = _deberta_positions(size, buckets, furthest)
    table = params.get("encoder.rel_embeddings.weight", np.zeros((0, x.shape[-1])))
    if "encoder.layer_norm.gamma" in params:
        table = normed(table, params, "encoder.layer_norm", eps)
    table = table[None, : 2 * span]
    to_key = np.clip(relative + span, 0, 2 * span - 1)
    rows = np.arange(size)[:, None]
    for number in range(config["num_hidden_layers"]):
        layer = burn.below(params, f"encoder.layers.{number}")
        query, key, value = (
            burn.heads_of(dense(x, layer, f"attention.{name}"), heads) for name in ("query", "key", "value")
        )
        scale = 1 / sqrt(query.shape[-1] * (1 + len(set(kinds))))
        bias = padding_mask(run.inputs)
        if "c2p" in kinds and len(table[0]):
            name = "pos_key" if "attention.pos_key.weight" in layer else "key"
            by_distance = query @ burn.heads_of(dense(table, layer, f"attention.{name}"), heads).swapaxes(-1, -2)
            bias = bias + by_distance[:, :, rows, to_key] * scale
        if "p2c" in kinds and len(table[0]):
            name = "pos_query" if "attention.pos_query.weight" in layer else "query"
            by_distance = key @ burn.heads_of(dense(table, layer, f"attention.{name}"), heads).swapaxes(-1, -2)
            to_query = np.clip(-relative + span, 0, 2 * span - 1)
            bias = bias + by_distance[:, :, rows, to_query].swapaxes(-1, -2) * scale
        attended = dense(mix(query, key, value, bias, scale), layer, "attention.output")
        x = _post_norm_block(x, layer, attended, config["hidden_act"], eps)
    return _finished(x, params, config, "pooler.output")


def modernbert(run: Run) -> dict[str, Values]:
    """Rotate half with one theta for local layers and one for global ones; the activation goes on the first half of Wi."""
    config, params = run.config, run.params
    eps, heads = config["norm_eps"], config["num_attention_heads"]
    x = normed(params["embeddings.tok_embeddings.weight"][run.inputs["input_ids"]], params, "embeddings.norm", eps)
    every = config.get("global_attn_every_n_layers", 3)
    kinds = config.get("layer_types") or ["sliding_attention" if n % every else "full_attention" for n in range(99)]
    times = np.arange(x.shape[1])
    near = np.where(abs(times[:, None] - times) <= config["local_attention"] // 2, 0.0, -1e30)
    for number in range(config["num_hidden_layers"]):
        layer = burn.below(params, f"layers.{number}")
        local = kinds[number] == "sliding_attention"
        inner = normed(x, layer, "attn_norm", eps) if "attn_norm.gamma" in layer else x
        query, key, value = (burn.heads_of(dense(inner, layer, f"attn.{n}"), heads) for n in ("query", "key", "value"))
        theta = theta_of(config, "sliding_attention" if local else "full_attention")
        query, key = (rotate_half(part, theta) for part in (query, key))
        bias = padding_mask(run.inputs) + (near if local else 0)
        x = x + dense(mix(query, key, value, bias, query.shape[-1] ** -0.5), layer, "attn.output")
        inner = normed(x, layer, "mlp_norm", eps)
        hidden = ACTIVATIONS[config["hidden_activation"]](dense(inner, layer, "mlp.input"))
        x = x + dense(hidden * dense(inner, layer, "mlp.gate"), layer, "mlp.output")
    x = normed(x, params, "final_norm", eps)
    if "head.decoder.weight" in params:
        hidden = ACTIVATIONS[config["classifier_activation"]](dense(x, params, "head.dense"))
        return {"logits": dense(normed(hidden, params, "head.norm", eps), params, "head.decoder")}
    if "head.classifier.weight" in params:
        hidden = normed(
            ACTIVATIONS[config["classifier_activation"]](dense(x[:, 0], params, "head.dense")), params, "head.norm", eps
        )
        return {"logits": dense(hidden, params, "head.classifier")}
    return {"last_hidden_state": x}
