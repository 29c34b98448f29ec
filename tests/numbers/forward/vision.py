"""Transformers that look at images, and the two towers that look at images and text."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.adapters.samples import Values
from tests.numbers import burn_formulas as burn
from tests.numbers.forward.common import (
    ACTIVATIONS,
    batch_normed,
    causal_mask,
    channels_first,
    channels_last,
    convolved,
    count,
    dense,
    mix,
    normed,
    patches,
    self_attention,
)
from tests.numbers.forward.recorded import Run

_NO_MASK = np.zeros((1, 1, 1, 1))


def vit(run: Run) -> dict[str, Values]:
    """Run burn::nn's TransformerEncoder with norm_first over a class token and patches."""
    config, params = run.config, run.params
    eps = config.get("layer_norm_eps", 1e-6)
    x = patches(next(iter(run.inputs.values())), params, "patch_embedding")
    own = [params[name] for name in ("cls_token", "distillation_token") if name in params]
    x = np.concatenate([*(np.repeat(token, len(x), 0) for token in own), x], 1) + params["position_embeddings"]
    for number in range(count(params, "encoder.layers")):
        layer = burn.below(params, f"encoder.layers.{number}")
        heads = config["num_attention_heads"]
        x = burn.encoder_layer(x, layer, heads=heads, norm_first=True, activation="gelu", eps=eps)
    x = normed(x, params, "norm", eps)
    if "classifier.weight" in params:
        return {"logits": dense(x[:, 0], params, "classifier")}
    outputs = {"last_hidden_state": x}
    if "pooler.weight" in params:
        outputs["pooler_output"] = np.tanh(dense(x[:, 0], params, "pooler"))
    return outputs


def vit_timm(run: Run) -> dict[str, Values]:
    """Run timm's test_vit: two heads of 32."""
    return vit(Run(run.params, {"num_attention_heads": 2}, run.inputs))


def dinov2(run: Run) -> dict[str, Values]:
    """Multiply each branch by a learned vector before adding it."""
    config, params = run.config, run.params
    eps, heads = config["layer_norm_eps"], config["num_attention_heads"]
    x = patches(run.inputs["pixel_values"], params, "patch_embedding")
    x = np.concatenate([np.repeat(params["cls_token"], len(x), 0), x], 1) + params["position_embeddings"]
    for number in range(config["num_hidden_layers"]):
        layer = burn.below(params, f"layers.{number}")
        inner = normed(x, layer, "norm_1", eps)
        x = x + burn.attention(inner, inner, inner, burn.below(layer, "attention"), heads) * layer["scale_1"]
        inner = normed(x, layer, "norm_2", eps)
        if "mlp.fc1.weight" in layer:
            out = dense(ACTIVATIONS[config["hidden_act"]](dense(inner, layer, "mlp.fc1")), layer, "mlp.fc2")
        else:
            gate = burn.silu(dense(inner, layer, "mlp.swiglu.linear_inner"))
            out = dense(gate * dense(inner, layer, "mlp.swiglu.linear_outer"), layer, "mlp.weights_out")
        x = x + out * layer["scale_2"]
    x = normed(x, params, "norm", eps)
    if "classifier.weight" in params:
        seen = np.concatenate([x[:, 0], x[:, 1:].mean(1)], -1)
        return {"logits": dense(seen, params, "classifier")}
    return {"last_hidden_state": x, "pooler_output": x[:, 0]}


def _encoder(x: Values, params: burn.Params, heads: int, activation: str, mask: Values, eps: float) -> Values:
    """Run CLIP's blocks: norms first, an activation burn::nn's TransformerEncoder may not have."""
    for number in range(count(params, "encoder.layers")):
        layer = burn.below(params, f"encoder.layers.{number}")
        inner = normed(x, layer, "norm_1", eps)
        x = x + burn.attention(inner, inner, inner, burn.below(layer, "attention"), heads, mask)
        hidden = ACTIVATIONS[activation](dense(normed(x, layer, "norm_2", eps), layer, "mlp.fc1"))
        x = x + dense(hidden, layer, "mlp.fc2")
    return x


def _text_tower(run: Run, config: dict[str, Any]) -> tuple[Values, Values]:
    """Return the states and the pooled one: at the first end token, or, where the config says 2, at the largest id."""
    ids, tower, eps = run.inputs["input_ids"], burn.below(run.params, "text_model"), config["layer_norm_eps"]
    x = tower["embeddings.token_embedding.weight"][ids] + tower["embeddings.position_embedding.weight"][: ids.shape[1]]
    x = _encoder(x, tower, config["num_attention_heads"], config["hidden_act"], causal_mask(ids.shape[1]), eps)
    x = normed(x, tower, "post_norm", eps)
    ends = ids.argmax(1) if config["eos_token_id"] == 2 else (ids == config["eos_token_id"]).argmax(1)
    return x, x[np.arange(len(x)), ends]


def _image_tower(run: Run, config: dict[str, Any]) -> tuple[Values, Values]:
    """Return the states, unnormed, and the class token through the last norm."""
    tower, eps = burn.below(run.params, "vision_model"), config["layer_norm_eps"]
    x = patches(run.inputs["pixel_values"], tower, "embeddings.patch_embedding")
    own = np.broadcast_to(tower["embeddings.class_embedding"], (len(x), 1, x.shape[-1]))
    x = np.concatenate([own, x], 1) + tower["embeddings.position_embedding.weight"]
    x = normed(x, tower, "pre_norm", eps)
    x = _encoder(x, tower, config["num_attention_heads"], config["hidden_act"], _NO_MASK, eps)
    return x, normed(x[:, 0], tower, "post_norm", eps)


def clip(run: Run) -> dict[str, Values]:
    """Run the towers that are there; two are compared by angle."""
    params = run.params
    outputs: dict[str, Values] = {}
    if "text_model.post_norm.gamma" in params:
        x, pooled = _text_tower(run, run.config.get("text_config", run.config))
        outputs |= {"last_hidden_state": x, "pooler_output": pooled}
        if "text_projection.weight" in params:
            outputs["text_embeds"] = dense(pooled, params, "text_projection")
    if "vision_model.post_norm.gamma" in params:
        x, pooled = _image_tower(run, run.config.get("vision_config", run.config))
        outputs |= {"last_hidden_state": x, "pooler_output": pooled}
        if "visual_projection.weight" in params:
            outputs["image_embeds"] = dense(pooled, params, "visual_projection")
    if "logit_scale" in params:
        for name in ("text_embeds", "image_embeds"):
            outputs[name] = outputs[name] / np.linalg.norm(outputs[name], axis=-1, keepdims=True)
        scores = outputs["image_embeds"] @ outputs["text_embeds"].T
        outputs["logits_per_image"] = scores * np.exp(params["logit_scale"])
    return outputs


def siglip_text(run: Run) -> dict[str, Values]:
    """Run burn::nn's TransformerEncoder without a causal mask; text is pooled at its last position."""
    config, tower = run.config, burn.below(run.params, "text_model")
    ids, eps = run.inputs["input_ids"], config["layer_norm_eps"]
    x = tower["embeddings.token_embedding.weight"][ids] + tower["embeddings.position_embedding.weight"][: ids.shape[1]]
    for number in range(config["num_hidden_layers"]):
        layer, heads = burn.below(tower, f"encoder.layers.{number}"), config["num_attention_heads"]
        x = burn.encoder_layer(x, layer, heads=heads, norm_first=True, activation="gelu_tanh", eps=eps)
    x = normed(x, tower, "post_norm", eps)
    return {"last_hidden_state": x, "pooler_output": dense(x[:, -1], tower, "head")}


def siglip_vision(run: Run) -> dict[str, Values]:
    """Run burn::nn's TransformerEncoder (tanh GELU), then pool by attention from a learned probe."""
    config, tower = run.config, burn.below(run.params, "vision_model")
    eps, heads = config["layer_norm_eps"], config["num_attention_heads"]
    x = patches(run.inputs["pixel_values"], tower, "embeddings.patch_embedding")
    x = x + tower["embeddings.position_embedding.weight"]
    for number in range(config["num_hidden_layers"]):
        layer = burn.below(tower, f"encoder.layers.{number}")
        x = burn.encoder_layer(x, layer, heads=heads, norm_first=True, activation="gelu_tanh", eps=eps)
    x = normed(x, tower, "post_norm", eps)
    outputs = {"last_hidden_state": x}
    if "head.probe" in tower:
        head = burn.below(tower, "head")
        probe = np.repeat(head["probe"], len(x), 0)
        pooled = burn.attention(probe, x, x, burn.below(head, "attention"), heads)
        hidden = burn.gelu_tanh(dense(normed(pooled, head, "norm", eps), head, "mlp.fc1"))
        outputs["pooler_output"] = (pooled + dense(hidden, head, "mlp.fc2"))[:, 0]
    return outputs


def _windows(x: Values, size: int) -> Values:
    """Cut [batch, h, w, c] into [batch * windows, size * size, c]."""
    batch, height, width, channels = x.shape
    cut = x.reshape(batch, height // size, size, width // size, size, channels)
    return cut.swapaxes(2, 3).reshape(-1, size * size, channels)


def _joined(windows: Values, size: int, height: int, width: int) -> Values:
    cut = windows.reshape(-1, height // size, width // size, size, size, windows.shape[-1])
    return cut.swapaxes(2, 3).reshape(-1, height, width, windows.shape[-1])


def _window_bias(table: Values, size: int) -> Values:
    """Look a learned bias up by the offset of key from query; [heads, size * size, size * size]."""
    rows, columns = np.divmod(np.arange(size * size), size)
    index = (rows[:, None] - rows + size - 1) * (2 * size - 1) + columns[:, None] - columns + size - 1
    return np.moveaxis(table[index], -1, 0)


def _shift_mask(height: int, width: int, size: int, shift: int) -> Values:
    """Keep apart what a cyclic shift brings into one window from opposite edges; [windows, 1, tokens, tokens]."""
    h, w = np.arange(height), np.arange(width)
    region = 3 * ((h >= height - size).astype(int) + (h >= height - shift))[:, None] + (
        (w >= width - size).astype(int) + (w >= width - shift)
    )
    parts = _windows(region[None, :, :, None], size)[..., 0]
    return np.where(parts[:, None, :] == parts[:, :, None], 0.0, -100.0)[:, None]


def _swin_block(x: Values, layer: burn.Params, heads: int, window: int, shift: int, eps: float) -> Values:
    batch, height, width, _ = x.shape
    if min(height, width) <= window:
        window, shift = min(height, width), 0
    inner = normed(x, layer, "norm_1", eps)
    inner = np.pad(inner, ((0, 0), (0, -height % window), (0, -width % window), (0, 0)))
    tall, wide = inner.shape[1:3]
    inner = _windows(np.roll(inner, (-shift, -shift), (1, 2)), window)
    bias = _window_bias(layer["attention.relative_position_bias_table"], window)[None]
    if shift:
        bias = bias + np.tile(_shift_mask(tall, wide, window, shift), (batch, 1, 1, 1))
    inner = _joined(self_attention(inner, burn.below(layer, "attention"), heads, bias), window, tall, wide)
    x = x + np.roll(inner, (shift, shift), (1, 2))[:, :height, :width]
    inner = normed(x, layer, "norm_2", eps)
    return x + dense(burn.gelu(dense(inner, layer, "mlp.fc1")), layer, "mlp.fc2")


def swin(run: Run) -> dict[str, Values]:
    """Attend within windows, every second block shifted by half a window; merge 2 x 2 patches, rows inner."""
    config, params = run.config, run.params
    eps, window = config["layer_norm_eps"], config["window_size"]
    x = channels_last(convolved(run.inputs["pixel_values"], params, "patch_embedding.conv", config["patch_size"]))
    x = normed(x, params, "patch_embedding.norm", 1e-5)
    if "position_embeddings" in params:
        x = x + params["position_embeddings"].reshape(1, *x.shape[1:])
    for stage, depth in enumerate(config["depths"]):
        own = burn.below(params, f"stages.{stage}")
        for number in range(depth):
            shift = window // 2 if number % 2 else 0
            x = _swin_block(x, burn.below(own, f"blocks.{number}"), config["num_heads"][stage], window, shift, eps)
        if "downsample.norm.gamma" in own:
            x = np.pad(x, ((0, 0), (0, x.shape[1] % 2), (0, x.shape[2] % 2), (0, 0)))
            x = np.concatenate([x[:, row::2, column::2] for column in range(2) for row in range(2)], -1)
            x = dense(normed(x, own, "downsample.norm", 1e-5), own, "downsample.reduction")
    x = normed(x.reshape(len(x), -1, x.shape[-1]), params, "norm", eps)
    if "classifier.weight" in params:
        return {"logits": dense(x.mean(1), params, "classifier")}
    return {"last_hidden_state": x, "pooler_output": x.mean(1)}


def _segformer_attention(x: Values, layer: burn.Params, heads: int, ratio: int) -> Values:
    """Attend from every place to keys and values of a smaller map; x is [batch, h, w, c]."""
    batch, height, width, channels = x.shape
    near = x
    if "attention.sr.weight" in layer:
        near = channels_last(convolved(channels_first(x), layer, "attention.sr", ratio))
        near = normed(near, layer, "attention.norm", 1e-5)
    flat, near = x.reshape(batch, -1, channels), near.reshape(batch, -1, channels)
    query = burn.heads_of(dense(flat, layer, "attention.query"), heads)
    key, value = (burn.heads_of(dense(near, layer, f"attention.{name}"), heads) for name in ("key", "value"))
    mixed = mix(query, key, value, _NO_MASK, query.shape[-1] ** -0.5)
    return dense(mixed, layer, "attention.output").reshape(batch, height, width, channels)


def _resized(x: Values, height: int, width: int) -> Values:
    """Resize [batch, c, h, w] bilinearly, corners not aligned."""
    for axis, size in ((2, height), (3, width)):
        old = x.shape[axis]
        at = np.clip((np.arange(size) + 0.5) * old / size - 0.5, 0, None)
        low = np.minimum(at.astype(int), old - 1)
        share = (at - low).reshape((-1, 1) if axis == 2 else (-1,))
        x = np.take(x, low, axis) * (1 - share) + np.take(x, np.minimum(low + 1, old - 1), axis) * share
    return x


def segformer(run: Run) -> dict[str, Values]:
    """Run four stages, then fuse them: the last stage's channels come first."""
    config, params = run.config, run.params
    x, stages = run.inputs["pixel_values"], []
    for stage, depth in enumerate(config["depths"]):
        own = burn.below(params, f"stages.{stage}")
        size = config["patch_sizes"][stage]
        x = channels_last(convolved(x, own, "patch_embedding.conv", config["strides"][stage], size // 2))
        x = normed(x, own, "patch_embedding.norm", 1e-5)
        for number in range(depth):
            layer = burn.below(own, f"blocks.{number}")
            heads, ratio = config["num_attention_heads"][stage], config["sr_ratios"][stage]
            x = x + _segformer_attention(normed(x, layer, "norm_1", 1e-5), layer, heads, ratio)
            hidden = channels_first(dense(normed(x, layer, "norm_2", 1e-5), layer, "mlp.fc1"))
            hidden = channels_last(convolved(hidden, layer, "mlp.dwconv", 1, 1, hidden.shape[1]))
            x = x + dense(ACTIVATIONS[config["hidden_act"]](hidden), layer, "mlp.fc2")
        x = channels_first(normed(x, own, "norm", 1e-5))
        stages.append(x)
    if "classifier.weight" in params:
        return {"logits": dense(x.reshape(*x.shape[:2], -1).mean(-1), params, "classifier")}
    if "decode_head.classifier.weight" not in params:
        return {"last_hidden_state": x}
    head = burn.below(params, "decode_head")
    height, width = stages[0].shape[2:]
    maps = [
        _resized(channels_first(dense(channels_last(x), head, f"linear_c.{stage}")), height, width)
        for stage, x in enumerate(stages)
    ]
    fused = convolved(np.concatenate(maps[::-1], 1), head, "linear_fuse")
    return {"logits": convolved(burn.relu(batch_normed(fused, head, "batch_norm")), head, "classifier")}
