"""Convolutional networks: their parameters are named for burn's model zoo, or after timm's own modules."""

from __future__ import annotations

import numpy as np

from tests.adapters.samples import Values
from tests.numbers import burn_formulas as burn
from tests.numbers.forward.common import (
    ACTIVATIONS,
    batch_normed,
    channels_first,
    channels_last,
    convolved,
    count,
    dense,
    normed,
)
from tests.numbers.forward.recorded import Run


def _pooled(x: Values, size: int, stride: int, padding: int = 0, *, mean: bool = False) -> Values:
    """Pool [batch, c, h, w] by the largest or the mean."""
    edges = ((0, 0), (0, 0), (padding, padding), (padding, padding))
    padded = np.pad(x, edges, constant_values=0 if mean else -np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (size, size), axis=(2, 3))[:, :, ::stride, ::stride]
    return np.asarray(windows.mean((-1, -2)) if mean else windows.max((-1, -2)))


def convnext(run: Run) -> dict[str, Values]:
    """Convolve by depth, then two Linears channels-last; the last norm is taken of the mean."""
    config, params = run.config, run.params
    eps = config["layer_norm_eps"]
    x = channels_last(convolved(run.inputs["pixel_values"], params, "stem.conv", config["patch_size"]))
    x = channels_first(normed(x, params, "stem.norm", 1e-6))
    for stage, depth in enumerate(config["depths"]):
        own = burn.below(params, f"stages.{stage}")
        if "downsample.conv.weight" in own:
            x = channels_first(normed(channels_last(x), own, "downsample.norm", 1e-6))
            x = convolved(x, own, "downsample.conv", 2)
        for number in range(depth):
            block = burn.below(own, f"blocks.{number}")
            inner = channels_last(convolved(x, block, "dwconv", 1, 3, x.shape[1]))
            inner = dense(normed(inner, block, "norm", 1e-6), block, "pwconv1")
            inner = dense(ACTIVATIONS[config["hidden_act"]](inner), block, "pwconv2")
            x = x + channels_first(inner * block["scale"])
    pooled = normed(x.mean((2, 3)), params, "norm", eps)
    if "classifier.weight" in params:
        return {"logits": dense(pooled, params, "classifier")}
    return {"last_hidden_state": x, "pooler_output": pooled}


def _conv_norm(x: Values, params: burn.Params, path: str, stride: int = 1, groups: int = 1) -> Values:
    """Run `conv` and `norm` below a path."""
    own = burn.below(params, path)
    padding = own["conv.weight"].shape[-1] // 2
    return batch_normed(convolved(x, own, "conv", stride, padding, groups), own, "norm")


def mobilenet_v2(run: Run) -> dict[str, Values]:
    """Run torchvision's MobileNetV2 with ReLU6: expand, convolve by depth, project without an activation."""

    def clipped(x: Values) -> Values:
        return np.clip(x, 0, 6)

    strides = (2, 1, 2, 1, 2, 1, 1, 2, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1)
    params, x = run.params, run.inputs["x"]
    x = clipped(_conv_norm(x, params, "features.0.Conv", 2))
    for number in range(1, 18):
        block, inner = burn.below(params, f"features.{number}.InvertedResidual"), x
        if "pw.conv.weight" in block:
            inner = clipped(_conv_norm(inner, block, "pw"))
        inner = clipped(_conv_norm(inner, block, "dw", strides[number], inner.shape[1]))
        inner = _conv_norm(inner, block, "pw_linear")
        x = x + inner if inner.shape == x.shape else inner
    x = clipped(_conv_norm(x, params, "features.18.Conv"))
    return {"logits": dense(x.mean((2, 3)), params, "classifier.linear")}


def resnet(run: Run) -> dict[str, Values]:
    """Run timm's ResNet: a deep stem, the mean of 2 x 2 before a shortcut's convolution, blocks of two kinds."""
    params, x = run.params, run.inputs["x"]
    for number in range(count(params, "stem.convs")):
        x = convolved(x, params, f"stem.convs.{number}", 1 if number else 2, 1)
        last = f"stem.norms.{number}.gamma" not in params
        x = x if last else burn.relu(batch_normed(x, params, f"stem.norms.{number}"))
    x = _pooled(burn.relu(batch_normed(x, params, "bn1")), 3, 2, 1)
    for stage in range(1, 5):
        for number in range(count(params, f"layer{stage}.blocks")):
            block = burn.below(params, f"layer{stage}.blocks.{number}")
            stride = 2 if stage > 1 and number == 0 else 1
            deep = "conv3.weight" in block
            inner = convolved(x, block, "conv1", 1 if deep else stride, 0 if deep else 1)
            inner = burn.relu(batch_normed(inner, block, "bn1"))
            inner = batch_normed(convolved(inner, block, "conv2", stride if deep else 1, 1), block, "bn2")
            if deep:
                inner = batch_normed(convolved(burn.relu(inner), block, "conv3"), block, "bn3")
            if "downsample.conv.weight" in block:
                x = _pooled(x, 2, stride, mean=True) if stride > 1 else x
                x = batch_normed(convolved(x, block, "downsample.conv"), block, "downsample.bn")
            x = burn.relu(inner + x)
    return {"logits": dense(x.mean((2, 3)), params, "fc")}


def _efficientnet_block(x: Values, block: burn.Params, stride: int) -> Values:
    """Run one of timm's blocks, told apart by what they hold; squeeze and excitation uses SiLU, then a sigmoid."""
    if "conv.weight" in block:  # ConvBnAct
        return burn.silu(batch_normed(convolved(x, block, "conv", stride, 1), block, "bn1"))
    if "conv_exp.weight" in block:  # EdgeResidual
        inner = burn.silu(batch_normed(convolved(x, block, "conv_exp", stride, 1), block, "bn1"))
        inner = batch_normed(convolved(inner, block, "conv_pwl"), block, "bn2")
        return inner + x if inner.shape == x.shape else inner
    inner = burn.silu(batch_normed(convolved(x, block, "conv_pw"), block, "bn1"))
    inner = convolved(inner, block, "conv_dw", stride, block["conv_dw.weight"].shape[-1] // 2, inner.shape[1])
    inner = burn.silu(batch_normed(inner, block, "bn2"))
    if "se.conv_reduce.weight" in block:
        squeezed = burn.silu(convolved(inner.mean((2, 3), keepdims=True), block, "se.conv_reduce"))
        inner = inner * burn.sigmoid(convolved(squeezed, block, "se.conv_expand"))
    inner = batch_normed(convolved(inner, block, "conv_pwl"), block, "bn3")
    return inner + x if inner.shape == x.shape else inner


def efficientnet_timm(run: Run) -> dict[str, Values]:
    """Run timm's test_efficientnet, whose five stages have one block each."""
    params, x = run.params, run.inputs["x"]
    x = burn.silu(batch_normed(convolved(x, params, "conv_stem", 2, 1), params, "bn1"))
    for stage, stride in enumerate((1, 2, 2, 2, 2)):
        x = _efficientnet_block(x, burn.below(params, f"blocks.{stage}.0"), stride)
    x = burn.silu(batch_normed(convolved(x, params, "conv_head"), params, "bn2"))
    return {"logits": dense(x.mean((2, 3)), params, "classifier")}
