"""What several models share beyond burn-nn's own layers: masks, rotary embeddings, biases by distance, convolutions."""

from __future__ import annotations

from collections.abc import Callable
from math import log, log2
from typing import Any

import numpy as np

from tests.adapters.samples import Values
from tests.numbers import burn_formulas as burn

ACTIVATIONS: dict[str, Callable[[Values], Values]] = {
    "relu": burn.relu,
    "gelu": burn.gelu,
    "gelu_new": burn.gelu_tanh,
    "gelu_pytorch_tanh": burn.gelu_tanh,
    "silu": burn.silu,
    "quick_gelu": lambda x: x * burn.sigmoid(1.702 * x),
}


def dense(x: Values, params: burn.Params, path: str) -> Values:
    """Run the Linear at a path."""
    return burn.linear(x, burn.below(params, path))


def normed(x: Values, params: burn.Params, path: str, eps: float) -> Values:
    """Run the LayerNorm at a path, which may lack beta."""
    own = burn.below(params, path)
    return burn.layer_norm(x, {"beta": np.zeros(1), **own}, eps)


def rms(x: Values, params: burn.Params, path: str, eps: float) -> Values:
    return burn.rms_norm(x, burn.below(params, path), eps)


def padding_mask(inputs: dict[str, Values]) -> Values:
    """Return what is added to scores so that nothing looks at padding; [batch, 1, 1, keys]."""
    mask = inputs.get("attention_mask")
    if mask is None:
        return np.zeros((1, 1, 1, 1))
    return np.where(mask[:, None, None, :] > 0, 0.0, -1e30)


def causal_mask(size: int, window: int | None = None) -> Values:
    """Return the mask of a decoder; with a window each token sees that many, itself among them."""
    distance = np.arange(size)[:, None] - np.arange(size)
    seen = (distance >= 0) & (distance < (window or size))
    return np.where(seen, 0.0, -1e30)


def mix(query: Values, key: Values, value: Values, bias: Values, scale: float) -> Values:
    """Return attention of [batch, head, time, width] with a scale of its own, heads joined again."""
    groups = query.shape[1] // key.shape[1]
    key, value = (np.repeat(part, groups, axis=1) for part in (key, value))
    mixed = burn.softmax(query @ key.swapaxes(-1, -2) * scale + bias) @ value
    return mixed.swapaxes(1, 2).reshape(query.shape[0], query.shape[2], -1)


def self_attention(
    x: Values, params: burn.Params, heads: int, bias: Values, names: str = "query key value output"
) -> Values:
    """Run plain attention with four Linears of the given names."""
    q, k, v, out = names.split()
    query, key, value = (burn.heads_of(dense(x, params, name), heads) for name in (q, k, v))
    return dense(mix(query, key, value, bias, query.shape[-1] ** -0.5), params, out)


def rotate_half(x: Values, theta: float, width: int | None = None) -> Values:
    """Rotate the first `width` elements of each head, element i with element i + width / 2."""
    width = width or x.shape[-1]
    angles = np.arange(x.shape[-2])[:, None] / theta ** (np.arange(0, width, 2) / width)
    cos, sin = np.cos(angles), np.sin(angles)
    first, second, rest = x[..., : width // 2], x[..., width // 2 : width], x[..., width:]
    return np.concatenate([first * cos - second * sin, second * cos + first * sin, rest], -1)


def rotate_pairs(x: Values, theta: float, width: int | None = None) -> Values:
    """Apply Burn's RotaryEncoding to the first `width` elements of each head: pair i is elements 2i and 2i + 1."""
    width = width or x.shape[-1]
    return np.concatenate([burn.rotate_adjacent_pairs(x[..., :width], theta), x[..., width:]], -1)


def theta_of(config: dict[str, Any], kind: str | None = None) -> float:
    """Return rope_theta where the config has it: of a layer kind, of all, or at the top in older files."""
    rope = config.get("rope_parameters") or {}
    rope = rope.get(kind, rope) if kind else rope
    return float(rope.get("rope_theta") or config.get("rope_theta") or 10_000.0)


def alibi_slopes(heads: int) -> Values:
    """Return one slope per head, as the ALiBi paper has them for counts that are no power of two."""
    whole = 2 ** int(log2(heads))
    slopes = [2 ** (-8 * (i + 1) / whole) for i in range(whole)]
    extra = [2 ** (-4 * (i + 1) / whole) for i in range(0, 2 * (heads - whole), 2)]
    return np.array(slopes + extra)


def log_buckets(size: tuple[int, int], buckets: int, distance: int, *, both_ways: bool) -> Values:
    """Return T5's bucket of every (query, key): exact for near ones, logarithmic up to `distance`."""
    relative = np.arange(size[1])[None, :] - np.arange(size[0])[:, None]
    base = np.zeros(size, int)
    if both_ways:
        buckets //= 2
        base += (relative > 0) * buckets
        relative = abs(relative)
    else:
        relative = -np.minimum(relative, 0)
    exact = buckets // 2
    far = exact + (np.log(np.maximum(relative, 1) / exact) / log(distance / exact) * (buckets - exact)).astype(int)
    return np.asarray(base + np.where(relative < exact, relative, np.minimum(far, buckets - 1)))


def conv(
    x: Values, params: burn.Params, stride: int = 1, padding: int = 0, groups: int = 1, dilation: int = 1
) -> Values:
    """Convolve [batch, in, ...] by weight [out, in / groups, ...], in as many dimensions as the weight has."""
    weight = params["weight"]
    dims = weight.ndim - 2
    axes = tuple(range(2, 2 + dims))
    padded = np.pad(x, ((0, 0), (0, 0), *((padding, padding),) * dims))
    extents = tuple((size - 1) * dilation + 1 for size in weight.shape[2:])
    windows = np.lib.stride_tricks.sliding_window_view(padded, extents, axis=axes)
    step = (slice(None), slice(None), *(slice(None, None, stride),) * dims, *(slice(None, None, dilation),) * dims)
    windows = windows[step]
    inner, outer = x.shape[1] // groups, weight.shape[0] // groups
    parts = []
    for group in range(groups):
        mine = windows[:, group * inner : (group + 1) * inner]
        kernel = weight[group * outer : (group + 1) * outer]
        summed = (1, *range(2 + dims, 2 + 2 * dims))
        parts.append(np.moveaxis(np.tensordot(mine, kernel, (summed, (1, *axes))), -1, 1))
    shape = (1, -1, *(1,) * dims)
    bias = np.asarray(params.get("bias", np.zeros(1))).reshape(shape)
    return np.asarray(np.concatenate(parts, 1) + bias)


def convolved(x: Values, params: burn.Params, path: str, stride: int = 1, padding: int = 0, groups: int = 1) -> Values:
    """Run the convolution at a path."""
    return conv(x, burn.below(params, path), stride, padding, groups)


def batch_normed(x: Values, params: burn.Params, path: str, eps: float = 1e-5) -> Values:
    return burn.batch_norm(x, burn.below(params, path), eps)


def channels_last(x: Values) -> Values:
    return np.moveaxis(x, 1, -1)


def channels_first(x: Values) -> Values:
    return np.moveaxis(x, -1, 1)


def patches(x: Values, params: burn.Params, path: str) -> Values:
    """Cut an image into patches: a convolution as wide as its stride, then [batch, patches, width]."""
    cut = convolved(x, params, path, stride=params[f"{path}.weight"].shape[-1])
    return cut.reshape(*cut.shape[:2], -1).swapaxes(1, 2)


def count(params: burn.Params, pattern: str) -> int:
    """Return how many numbers stand at the end of a path: `layers` for layers.0, layers.1."""
    depth = pattern.count(".") + 1
    prefix = f"{pattern}."
    return len({name.split(".")[depth] for name in params if name.startswith(prefix)})
