"""Burn's layers as Rust text: the struct, the arguments that weights tell, and a helper that makes one.

The helpers keep constructors readable: `linear(d, ff, true, device)`. What weights do not tell (stride, padding, dilation,
dropout) is left at Burn's default in the helper, which says so. Not here: the parameters themselves (`importer.adapters`).

Source: configs of burn-nn 0.22 (crates/burn-nn/src/modules and src/activation).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from importer.rust.rust_types import Declared, LayerType, Number

__all__ = ["EPSILON", "HEADS", "LayerArgument", "RustLayer", "arguments_of", "rust_layer"]

HEADS = "heads"
EPSILON = "epsilon"
"""Arguments that no weight tells; their symbols are fields of the config."""


def _own_symbol(name: str) -> Callable[[Declared], str | None]:
    return lambda one: one.symbols.get(name)


@dataclass(frozen=True, slots=True)
class LayerArgument:
    """An argument of a helper: name, Rust type, its value for a declared layer, and a Rust expression for it if known."""

    name: str
    type: str
    value: Callable[[Declared], Number]
    symbol: Callable[[Declared], str | None]


@dataclass(frozen=True, slots=True)
class RustLayer:
    """A layer of burn-nn.

    Attributes:
        path: its struct, as generated files write it.
        helper: name of the function that makes one.
        arguments: what the helper takes, before the device.
        text: the helper, formatted.
        untold: what the weights leave open.
    """

    path: str
    helper: str
    arguments: tuple[LayerArgument, ...]
    text: str
    untold: str = ""


def _number(name: str) -> LayerArgument:
    return LayerArgument(name, "usize", lambda one: one.args.get(name), _own_symbol(name))


def _flag(name: str, *, default: bool) -> LayerArgument:
    def value(one: Declared) -> Number:
        given = one.args.get(name)
        return default if given is None else given

    return LayerArgument(name, "bool", value, _own_symbol(name))


def _pair(dims: int) -> tuple[LayerArgument, LayerArgument]:
    """Return channels and kernel of a convolution, as arrays."""

    def channels(one: Declared) -> Number:
        first, second = one.args.get("in"), one.args.get("out")
        return (first, second) if isinstance(first, int) and isinstance(second, int) else None

    def kernel(one: Declared) -> Number:
        size = one.args.get("k")
        return size if isinstance(size, tuple) else (size,) * dims if isinstance(size, int) else None

    def channel_symbols(one: Declared) -> str | None:
        given = [one.symbols.get(name) for name in ("in", "out")]
        if given == [None, None]:
            return None
        words = [symbol or str(one.args.get(name)) for name, symbol in zip(("in", "out"), given, strict=True)]
        return f"[{', '.join(words)}]"

    def kernel_symbol(one: Declared) -> str | None:
        symbol = one.symbols.get("k")
        return None if symbol is None or isinstance(one.args.get("k"), tuple) else f"[{symbol}; {dims}]"

    return (
        LayerArgument("channels", "[usize; 2]", channels, channel_symbols),
        LayerArgument("kernel", f"[usize; {dims}]", kernel, kernel_symbol),
    )


def _setting(name: str, kind: str) -> LayerArgument:
    return LayerArgument(name, kind, lambda _: None, _own_symbol(name))


def _convolution(
    dims: int, *, transposed: bool = False, groups: str = "groups", struct: str = "", helper: str = ""
) -> RustLayer:
    kind = struct or f"Conv{'Transpose' * transposed}{dims}d"
    helper = helper or f"conv{'_transpose' * transposed}{dims}d"
    sizes = (
        "channels, kernel"
        if dims > 1
        else "channels, kernel[0]"
        if transposed
        else "channels[0], channels[1], kernel[0]"
    )
    channels, kernel = _pair(dims)
    text = f"""\
fn {helper}(
    channels: [usize; 2],
    kernel: [usize; {dims}],
    groups: usize,
    bias: bool,
    device: &Device,
) -> nn::conv::{kind} {{
    nn::conv::{kind}Config::new({sizes})
        .with_{groups}(groups)
        .with_bias(bias)
        .init(device)
}}
"""
    arguments = (channels, kernel, _number(groups), _flag("bias", default=True))
    return RustLayer(f"nn::conv::{kind}", helper, arguments, text, "stride, padding and dilation")


def _recurrent(kind: str) -> RustLayer:
    helper = {"Lstm": "lstm", "BiLstm": "bi_lstm", "Gru": "gru", "BiGru": "bi_gru", "Rnn": "rnn", "BiRnn": "bi_rnn"}[
        kind
    ]
    text = f"""\
fn {helper}(d_input: usize, d_hidden: usize, bias: bool, device: &Device) -> nn::{kind} {{
    nn::{kind}Config::new(d_input, d_hidden, bias).init(device)
}}
"""
    return RustLayer(f"nn::{kind}", helper, (_number("in"), _number("hidden"), _flag("bias", default=True)), text)


_TRANSFORMER_ARGUMENTS = (
    _number("d"),
    _number("ff"),
    _setting(HEADS, "usize"),
    _flag("norm_first", default=False),
    _setting(EPSILON, "f64"),
)


def _transformer(kind: str, helper: str) -> RustLayer:
    """Return one block; Burn makes it from the configuration of a whole stack."""
    stack = kind.removesuffix("Layer")
    text = f"""\
fn {helper}(
    d_model: usize,
    d_ff: usize,
    n_heads: usize,
    norm_first: bool,
    epsilon: f64,
    device: &Device,
) -> nn::transformer::{kind} {{
    let config = nn::transformer::{stack}Config::new(d_model, d_ff, n_heads, 1)
        .with_norm_first(norm_first)
        .with_layer_norm_eps(epsilon);
    nn::transformer::{kind}::new(&config, device)
}}
"""
    return RustLayer(f"nn::transformer::{kind}", helper, _TRANSFORMER_ARGUMENTS, text, "activation (Gelu) and dropout")


def _stack(kind: str, helper: str) -> RustLayer:
    text = f"""\
fn {helper}(
    d_model: usize,
    d_ff: usize,
    n_heads: usize,
    n_layers: usize,
    norm_first: bool,
    epsilon: f64,
    device: &Device,
) -> nn::transformer::{kind} {{
    nn::transformer::{kind}Config::new(d_model, d_ff, n_heads, n_layers)
        .with_norm_first(norm_first)
        .with_layer_norm_eps(epsilon)
        .init(device)
}}
"""
    arguments = (*_TRANSFORMER_ARGUMENTS[:3], _number("n"), *_TRANSFORMER_ARGUMENTS[3:])
    return RustLayer(f"nn::transformer::{kind}", helper, arguments, text, "activation (Gelu) and dropout")


def _plain(kind: str, helper: str, text: str, *arguments: LayerArgument, untold: str = "") -> RustLayer:
    return RustLayer(f"nn::{kind}", helper, arguments, text, untold)


def _dims(one: Declared) -> Number:
    return one.args.get("dims")


_IN, _OUT, _BIAS = _number("in"), _number("out"), _flag("bias", default=True)
_EPSILON = _setting(EPSILON, "f64")

_LAYERS: Mapping[str, RustLayer] = {
    "Linear": _plain(
        "Linear",
        "linear",
        """\
fn linear(d_input: usize, d_output: usize, bias: bool, device: &Device) -> nn::Linear {
    nn::LinearConfig::new(d_input, d_output)
        .with_bias(bias)
        .init(device)
}
""",
        _IN,
        _OUT,
        _BIAS,
    ),
    "LinearCol": _plain(
        "Linear",
        "linear_col",
        """\
fn linear_col(d_input: usize, d_output: usize, bias: bool, device: &Device) -> nn::Linear {
    nn::LinearConfig::new(d_input, d_output)
        .with_bias(bias)
        .with_layout(nn::LinearLayout::Col)
        .init(device)
}
""",
        _IN,
        _OUT,
        _BIAS,
    ),
    "Embedding": _plain(
        "Embedding",
        "embedding",
        """\
fn embedding(n_embedding: usize, d_model: usize, device: &Device) -> nn::Embedding {
    nn::EmbeddingConfig::new(n_embedding, d_model).init(device)
}
""",
        _number("n"),
        _number("d"),
    ),
    "BatchNorm": _plain(
        "BatchNorm",
        "batch_norm",
        """\
fn batch_norm(num_features: usize, epsilon: f64, device: &Device) -> nn::BatchNorm {
    nn::BatchNormConfig::new(num_features)
        .with_epsilon(epsilon)
        .init(device)
}
""",
        _number("c"),
        _EPSILON,
    ),
    "LayerNorm": _plain(
        "LayerNorm",
        "layer_norm",
        """\
fn layer_norm(d_model: usize, bias: bool, epsilon: f64, device: &Device) -> nn::LayerNorm {
    nn::LayerNormConfig::new(d_model)
        .with_bias(bias)
        .with_epsilon(epsilon)
        .init(device)
}
""",
        _number("d"),
        _BIAS,
        _EPSILON,
    ),
    "RmsNorm": _plain(
        "RmsNorm",
        "rms_norm",
        """\
fn rms_norm(d_model: usize, epsilon: f64, device: &Device) -> nn::RmsNorm {
    nn::RmsNormConfig::new(d_model)
        .with_epsilon(epsilon)
        .init(device)
}
""",
        _number("d"),
        _EPSILON,
    ),
    "GroupNorm": _plain(
        "GroupNorm",
        "group_norm",
        """\
fn group_norm(
    num_groups: usize,
    num_channels: usize,
    affine: bool,
    epsilon: f64,
    device: &Device,
) -> nn::GroupNorm {
    nn::GroupNormConfig::new(num_groups, num_channels)
        .with_affine(affine)
        .with_epsilon(epsilon)
        .init(device)
}
""",
        _number("groups"),
        _number("c"),
        _flag("affine", default=True),
        _EPSILON,
    ),
    "InstanceNorm": _plain(
        "InstanceNorm",
        "instance_norm",
        """\
fn instance_norm(
    num_channels: usize,
    affine: bool,
    epsilon: f64,
    device: &Device,
) -> nn::InstanceNorm {
    nn::InstanceNormConfig::new(num_channels)
        .with_affine(affine)
        .with_epsilon(epsilon)
        .init(device)
}
""",
        _number("c"),
        _flag("affine", default=True),
        _EPSILON,
    ),
    "PRelu": _plain(
        "PRelu",
        "prelu",
        """\
fn prelu(num_parameters: usize, device: &Device) -> nn::PRelu {
    nn::PReluConfig::new()
        .with_num_parameters(num_parameters)
        .init(device)
}
""",
        _number("n"),
    ),
    **{f"Conv{dims}d": _convolution(dims) for dims in (1, 2, 3)},
    **{f"ConvTranspose{dims}d": _convolution(dims, transposed=True) for dims in (1, 2, 3)},
    "DeformConv2d": _convolution(2, groups="weight_groups", struct="DeformConv2d", helper="deform_conv2d"),
    **{kind: _recurrent(kind) for kind in ("Lstm", "BiLstm", "Gru", "BiGru", "Rnn", "BiRnn")},
    "Mha": RustLayer(
        "nn::attention::MultiHeadAttention",
        "attention",
        (_number("d"), _setting(HEADS, "usize")),
        """\
fn attention(d_model: usize, n_heads: usize, device: &Device) -> nn::attention::MultiHeadAttention {
    nn::attention::MultiHeadAttentionConfig::new(d_model, n_heads).init(device)
}
""",
    ),
    "CrossAttention": RustLayer(
        "nn::attention::CrossAttention",
        "cross_attention",
        (
            _number("d"),
            _number("context"),
            LayerArgument(
                "queries", "usize", lambda one: one.args.get("queries") or one.args.get("d"), _own_symbol("queries")
            ),
            LayerArgument(
                "keys",
                "usize",
                lambda one: one.args.get("keys") or one.args.get("queries") or one.args.get("d"),
                _own_symbol("keys"),
            ),
            _setting(HEADS, "usize"),
        ),
        """\
fn cross_attention(
    d_model: usize,
    d_context: usize,
    d_queries: usize,
    d_keys: usize,
    n_heads: usize,
    device: &Device,
) -> nn::attention::CrossAttention {
    let d_head = d_queries / n_heads;
    let n_heads_kv = d_keys / d_head;
    nn::attention::CrossAttentionConfig::new(d_model, d_context, n_heads, n_heads_kv, d_head)
        .init(device)
}
""",
    ),
    "TransformerEncoderLayer": _transformer("TransformerEncoderLayer", "encoder_layer"),
    "TransformerDecoderLayer": _transformer("TransformerDecoderLayer", "decoder_layer"),
    "TransformerEncoder": _stack("TransformerEncoder", "encoder"),
    "TransformerDecoder": _stack("TransformerDecoder", "decoder"),
    "SwiGlu": _plain(
        "SwiGlu",
        "swiglu",
        """\
fn swiglu(d_input: usize, d_output: usize, bias: bool, device: &Device) -> nn::SwiGlu {
    nn::SwiGluConfig::new(d_input, d_output)
        .with_bias(bias)
        .init(device)
}
""",
        _IN,
        _OUT,
        _flag("bias", default=False),
    ),
    "Identity": _plain("Identity", "identity", "fn identity() -> nn::Identity {\n    nn::Identity::new()\n}\n"),
}

_PARAM_TEXT = {
    "float": """\
fn param<const D: usize>(shape: [usize; D], device: &Device) -> Param<Tensor<D>> {
    Initializer::Zeros.init(shape, device)
}
""",
    "int": """\
fn int_param<const D: usize>(shape: [usize; D], device: &Device) -> Param<Tensor<D, Int>> {
    Param::initialized(ParamId::new(), Tensor::zeros(shape, device))
}
""",
    "bool": """\
fn bool_param<const D: usize>(shape: [usize; D], device: &Device) -> Param<Tensor<D, Bool>> {
    let zeros: Tensor<D, Int> = Tensor::zeros(shape, device);
    Param::initialized(ParamId::new(), zeros.bool())
}
""",
}


def rust_layer(kind: LayerType) -> RustLayer:
    """Return how a layer is written in Rust; a bare parameter has the rank of its shape."""
    if kind.kind != "Param":
        return _LAYERS[kind.kind]
    extra = {"float": "", "int": ", Int", "bool": ", Bool"}[kind.element]
    helper = {"float": "param", "int": "int_param", "bool": "bool_param"}[kind.element]
    shape = LayerArgument("shape", f"[usize; {kind.rank}]", _dims, _own_symbol("dims"))
    return RustLayer(f"Param<Tensor<{kind.rank}{extra}>>", helper, (shape,), _PARAM_TEXT[kind.element])


def arguments_of(kind: LayerType) -> tuple[LayerArgument, ...]:
    """Return what the helper of a layer takes before the device."""
    return rust_layer(kind).arguments
