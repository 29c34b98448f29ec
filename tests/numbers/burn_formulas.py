"""Forward passes in Burn's convention (burn-nn), written in numpy over parameters by their Burn names.

Linear is `x @ weight + bias` with weight [in, out]; norms are `gamma`, `beta`; rotary embeddings rotate adjacent pairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import erf, sqrt

import numpy as np

from tests.adapters.samples import Values

Params = Mapping[str, Values]


def below(params: Params, path: str) -> dict[str, Values]:
    """Return the parameters below a path, by their names there."""
    return {name[len(path) + 1 :]: values for name, values in params.items() if name.startswith(f"{path}.")}


def sigmoid(x: Values) -> Values:
    return np.asarray(1 / (1 + np.exp(-x)))


def softmax(x: Values) -> Values:
    exponents = np.exp(x - x.max(-1, keepdims=True))
    shares: Values = exponents / exponents.sum(-1, keepdims=True)
    return shares


def relu(x: Values) -> Values:
    return np.asarray(np.maximum(x, 0))


def gelu(x: Values) -> Values:
    return np.asarray(x * 0.5 * (1 + np.vectorize(erf)(x / sqrt(2))))


def gelu_tanh(x: Values) -> Values:
    return np.asarray(0.5 * x * (1 + np.tanh(sqrt(2 / np.pi) * (x + 0.044715 * x**3))))


def silu(x: Values) -> Values:
    return x * sigmoid(x)


def linear(x: Values, params: Params) -> Values:
    return x @ params["weight"] + params.get("bias", np.float32(0))


def layer_norm(x: Values, params: Params, eps: float = 1e-5) -> Values:
    centred = x - x.mean(-1, keepdims=True)
    normed: Values = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps)
    return normed * params["gamma"] + params["beta"]


def rms_norm(x: Values, params: Params, eps: float) -> Values:
    normed: Values = x / np.sqrt((x**2).mean(-1, keepdims=True) + eps)
    return normed * params["gamma"]


def batch_norm(x: Values, params: Params, eps: float = 1e-5) -> Values:
    """Normalise dimension 1 by the running statistics."""
    shape = (1, -1) + (1,) * (x.ndim - 2)
    mean, variance, gamma, beta = (
        params[name].reshape(shape) for name in ("running_mean", "running_var", "gamma", "beta")
    )
    return (x - mean) / np.sqrt(variance + eps) * gamma + beta


def conv2d(x: Values, params: Params, stride: int = 1, padding: int = 0) -> Values:
    """Convolve [batch, in, h, w] with weight [out, in, kh, kw]."""
    padded = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    kernel = params["weight"].shape[2:]
    windows = np.lib.stride_tricks.sliding_window_view(padded, kernel, axis=(2, 3))[:, :, ::stride, ::stride]
    result: Values = np.einsum("bihwkl,oikl->bohw", windows, params["weight"])
    return result


def gate(x: Values, hidden: Values, params: Params) -> tuple[Values, Values]:
    """Return the input and the hidden product of a GateController."""
    return linear(x, below(params, "input_transform")), linear(hidden, below(params, "hidden_transform"))


def lstm_step(x: Values, hidden: Values, cell: Values, params: Params) -> tuple[Values, Values]:
    def product(name: str) -> Values:
        return np.add(*gate(x, hidden, below(params, f"{name}_gate")))

    cell = sigmoid(product("forget")) * cell + sigmoid(product("input")) * np.tanh(product("cell"))
    return sigmoid(product("output")) * np.tanh(cell), cell


def lstm(x: Values, params: Params) -> Values:
    """Run over [batch, time, in]; states start at zero."""
    size = params["input_gate.hidden_transform.weight"].shape[0]
    hidden = cell = np.zeros((x.shape[0], size), np.float32)
    outputs = []
    for step in x.swapaxes(0, 1):
        hidden, cell = lstm_step(step, hidden, cell, params)
        outputs.append(hidden)
    return np.stack(outputs, 1)


def gru(x: Values, params: Params) -> Values:
    """Run over [batch, time, in] with reset_after, Burn's default."""
    hidden = np.zeros((x.shape[0], params["new_gate.hidden_transform.weight"].shape[0]), np.float32)
    outputs = []
    for step in x.swapaxes(0, 1):
        reset, update = (sigmoid(np.add(*gate(step, hidden, below(params, f"{n}_gate")))) for n in ("reset", "update"))
        from_input, from_hidden = gate(step, hidden, below(params, "new_gate"))
        hidden = (1 - update) * np.tanh(from_input + reset * from_hidden) + update * hidden
        outputs.append(hidden)
    return np.stack(outputs, 1)


def rnn(x: Values, params: Params) -> Values:
    """Run over [batch, time, in] with tanh."""
    hidden = np.zeros((x.shape[0], params["gate.hidden_transform.weight"].shape[0]), np.float32)
    outputs = []
    for step in x.swapaxes(0, 1):
        hidden = np.tanh(np.add(*gate(step, hidden, below(params, "gate"))))
        outputs.append(hidden)
    return np.stack(outputs, 1)


def heads_of(x: Values, count: int) -> Values:
    """Return [batch, head, time, width of a head]."""
    return x.reshape(*x.shape[:2], count, -1).swapaxes(1, 2)


def attend(query: Values, key: Values, value: Values, mask: Values | None = None) -> Values:
    """Return softmax(q k / sqrt(width)) v, heads joined again; `mask` is added to the scores."""
    scores = query @ key.swapaxes(-1, -2) / np.float32(sqrt(query.shape[-1]))
    mixed = softmax(scores if mask is None else scores + mask) @ value
    return mixed.swapaxes(1, 2).reshape(query.shape[0], query.shape[2], -1)


def causal_mask(size: int) -> Values:
    return np.triu(np.full((size, size), -np.inf, np.float32), 1)


def attention(
    query: Values, key: Values, value: Values, params: Params, heads: int, mask: Values | None = None
) -> Values:
    """Run MultiHeadAttention; CrossAttention computes the same with `key` and `value` from the context."""
    q, k, v = (
        heads_of(linear(x, below(params, name)), heads)
        for x, name in ((query, "query"), (key, "key"), (value, "value"))
    )
    return linear(attend(q, k, v, mask), below(params, "output"))


def feed_forward(x: Values, params: Params, activation: str) -> Values:
    function = {"relu": relu, "gelu": gelu, "gelu_tanh": gelu_tanh}[activation]
    return linear(function(linear(x, below(params, "linear_inner"))), below(params, "linear_outer"))


def encoder_layer(
    x: Values,
    params: Params,
    *,
    heads: int,
    norm_first: bool,
    activation: str,
    mask: Values | None = None,
    eps: float = 1e-5,
) -> Values:
    """Run TransformerEncoderLayer: with norm_first Burn uses norm_2 before the attention, norm_1 before the pwff."""

    def norm(number: int, values: Values) -> Values:
        return layer_norm(values, below(params, f"norm_{number}"), eps)

    mha, pwff = below(params, "mha"), below(params, "pwff")
    if norm_first:
        inner = norm(2, x)
        x = x + attention(inner, inner, inner, mha, heads, mask)
        return x + feed_forward(norm(1, x), pwff, activation)
    x = norm(1, x + attention(x, x, x, mha, heads, mask))
    return norm(2, x + feed_forward(x, pwff, activation))


def decoder_layer(
    x: Values, memory: Values, params: Params, *, heads: int, norm_first: bool, activation: str = "relu"
) -> Values:
    """Run TransformerDecoderLayer: with norm_first Burn uses norm_3, norm_1, norm_2 in this order."""

    def norm(number: int, values: Values) -> Values:
        return layer_norm(values, below(params, f"norm_{number}"))

    own, cross, pwff = (below(params, name) for name in ("self_attn", "cross_attn", "pwff"))
    if norm_first:
        inner = norm(3, x)
        x = x + attention(inner, inner, inner, own, heads)
        x = x + attention(norm(1, x), memory, memory, cross, heads)
        return x + feed_forward(norm(2, x), pwff, activation)
    x = norm(1, x + attention(x, x, x, own, heads))
    x = norm(2, x + attention(x, memory, memory, cross, heads))
    return norm(3, x + feed_forward(x, pwff, activation))


def rotate_adjacent_pairs(x: Values, theta: float) -> Values:
    """Apply Burn's RotaryEncoding to [batch, head, time, width]: pair i is elements 2i and 2i + 1."""
    width, times = x.shape[-1], np.arange(x.shape[-2], dtype=np.float32)
    angles = times[:, None] / theta ** (np.arange(0, width, 2, dtype=np.float32) / width)
    cos, sin = np.cos(angles), np.sin(angles)
    even, odd = x[..., 0::2], x[..., 1::2]
    rotated = np.stack([even * cos - odd * sin, odd * cos + even * sin], -1)
    return rotated.reshape(x.shape)
