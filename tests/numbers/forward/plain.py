"""Models of plain torch.nn layers, saved whole: what each layer kind computes by burn-nn's formulas."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.adapters.samples import Values
from tests.numbers import burn_formulas as burn
from tests.numbers.forward.common import batch_normed, conv, dense, normed
from tests.numbers.forward.recorded import Run

_HEADS = 4


def _only(run: Run) -> tuple[burn.Params, Values]:
    return burn.below(run.params, "0"), run.inputs["x"]


def _transposed(
    x: Values, params: burn.Params, stride: int = 1, padding: int = 0, extra: int = 0, groups: int = 1
) -> Values:
    """Convolve [batch, in, ...] the other way round by weight [in, out / groups, ...]."""
    weight = params["weight"]
    dims = weight.ndim - 2
    axes = tuple(range(2, 2 + dims))
    spread = np.zeros((*x.shape[:2], *((size - 1) * stride + 1 for size in x.shape[2:])))
    spread[(slice(None), slice(None), *(slice(None, None, stride),) * dims)] = x
    edges = [(size - 1 - padding, size - 1 - padding + extra) for size in weight.shape[2:]]
    spread = np.pad(spread, [(0, 0), (0, 0), *edges])
    each = weight.shape[0] // groups
    kernels = [np.flip(weight[g * each : (g + 1) * each], axes).swapaxes(0, 1) for g in range(groups)]
    return conv(spread, {"weight": np.concatenate(kernels), "bias": params["bias"]}, groups=groups)


def _group_norm(groups: int) -> Callable[[Run], dict[str, Values]]:
    def run_it(run: Run) -> dict[str, Values]:
        params, x = _only(run)
        grouped = x.reshape(len(x), groups or x.shape[1], -1)
        centred = grouped - grouped.mean(-1, keepdims=True)
        plain = (centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)).reshape(x.shape)
        gamma, beta = (params[name].reshape(-1, 1, 1) for name in ("gamma", "beta"))
        return {"y": plain * gamma + beta}

    return run_it


def _of(layer: Callable[[Values, burn.Params], Values]) -> Callable[[Run], dict[str, Values]]:
    """Return a run of the one layer of a Sequential."""

    def run_it(run: Run) -> dict[str, Values]:
        params, x = _only(run)
        return {"y": layer(x, params)}

    return run_it


def _conv_bn_linear(run: Run) -> dict[str, Values]:
    x = conv(run.inputs["x"], burn.below(run.params, "0"))
    x = burn.relu(batch_normed(x, run.params, "1"))
    return {"y": dense(x.reshape(len(x), -1), run.params, "4")}


def _recurrent(layer: Callable[[Values, burn.Params], Values], layers: int = 1) -> Callable[[Run], dict[str, Values]]:
    def run_it(run: Run) -> dict[str, Values]:
        x, params = run.inputs["x"], burn.below(run.params, "rnn")
        for number in range(layers):
            own = burn.below(params, str(number)) if layers > 1 else params
            both = burn.below(own, "forward"), burn.below(own, "reverse")
            if both[1]:
                x = np.concatenate([layer(x, both[0]), layer(x[:, ::-1], both[1])[:, ::-1]], -1)
            else:
                x = layer(x, own)
        return {"y": x}

    return run_it


def _attention(run: Run) -> dict[str, Values]:
    x = run.inputs["x"]
    return {"y": burn.attention(x, x, x, burn.below(run.params, "attn"), heads=_HEADS)}


def _encoder(*, norm_first: bool) -> Callable[[Run], dict[str, Values]]:
    def run_it(run: Run) -> dict[str, Values]:
        x = run.inputs["x"]
        for number in range(2):
            layer = burn.below(run.params, f"encoder.layers.{number}")
            x = burn.encoder_layer(x, layer, heads=_HEADS, norm_first=norm_first, activation="gelu")
        return {"y": normed(x, run.params, "encoder.norm", 1e-5) if "encoder.norm.gamma" in run.params else x}

    return run_it


def _decoder(*, norm_first: bool) -> Callable[[Run], dict[str, Values]]:
    def run_it(run: Run) -> dict[str, Values]:
        x = memory = run.inputs["x"]
        for number in range(2):
            layer = burn.below(run.params, f"decoder.layers.{number}")
            x = burn.decoder_layer(x, memory, layer, heads=_HEADS, norm_first=norm_first, activation="gelu")
        return {"y": normed(x, run.params, "decoder.norm", 1e-5) if "decoder.norm.gamma" in run.params else x}

    return run_it


def _prelu(x: Values, params: burn.Params) -> Values:
    return np.where(x > 0, x, x * params["alpha"].reshape(1, -1, 1, 1))


PLAIN: dict[str, Callable[[Run], dict[str, Values]]] = {
    "batchnorm1d": _of(burn.batch_norm),
    "batchnorm2d": _of(burn.batch_norm),
    "conv-bn-linear": _conv_bn_linear,
    "conv-transpose1d": _of(lambda x, p: _transposed(x, p, 2, 1, 1)),
    "conv-transpose2d": _of(lambda x, p: _transposed(x, p, 2, groups=2)),
    "conv-transpose3d": _of(_transposed),
    "conv1d": _of(lambda x, p: conv(x, p, 2, 1)),
    "conv2d-groups": _of(lambda x, p: conv(x, p, groups=2, dilation=2)),
    "conv3d": _of(conv),
    "decoder-post-norm": _decoder(norm_first=False),
    "decoder-pre-norm": _decoder(norm_first=True),
    "embedding": _of(lambda x, p: p["weight"][x]),
    "encoder-post-norm": _encoder(norm_first=False),
    "encoder-pre-norm": _encoder(norm_first=True),
    "groupnorm": _group_norm(2),
    "gru": _recurrent(burn.gru),
    "gru-bi": _recurrent(burn.gru),
    "instancenorm": _group_norm(0),
    "layernorm": _of(burn.layer_norm),
    "linear": _of(burn.linear),
    "linear-nobias": _of(burn.linear),
    "lstm": _recurrent(burn.lstm),
    "lstm-bi": _recurrent(burn.lstm),
    "lstm-two-layers": _recurrent(burn.lstm, 2),
    "mha": _attention,
    "mha-nobias": _attention,
    "prelu": _of(_prelu),
    "prelu-one": _of(_prelu),
    "rmsnorm": _of(lambda x, p: burn.rms_norm(x, p, 1e-5)),
    "rnn": _recurrent(burn.rnn),
    "spectral-norm-conv": _of(conv),
    "weight-norm-conv": _of(conv),
    "weight-norm-linear": _of(burn.linear),
}
