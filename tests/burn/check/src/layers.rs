//! Plain torch.nn layers and the burn-nn modules of the same names.
//!
//! A saved module names its classes and their settings; a state dict has neither, so for those `io.json` says what it was.

use burn::module::Module;
use burn::nn::activation::ActivationConfig;
use burn::nn::attention::{MhaInput, MultiHeadAttention, MultiHeadAttentionConfig};
use burn::nn::conv::{
    Conv1d, Conv1dConfig, Conv2d, Conv2dConfig, Conv3d, Conv3dConfig, ConvTranspose1d, ConvTranspose1dConfig,
    ConvTranspose2d, ConvTranspose2dConfig, ConvTranspose3d, ConvTranspose3dConfig,
};
use burn::nn::transformer::{
    TransformerDecoder, TransformerDecoderConfig, TransformerDecoderInput, TransformerEncoder,
    TransformerEncoderConfig, TransformerEncoderInput,
};
use burn::nn::{
    BatchNorm, BatchNormConfig, BiGru, BiGruConfig, BiLstm, BiLstmConfig, BiRnn, BiRnnConfig, Embedding,
    EmbeddingConfig, GroupNorm, GroupNormConfig, Gru, GruConfig, InstanceNorm, InstanceNormConfig, LayerNorm,
    LayerNormConfig, Linear, LinearConfig, Lstm, LstmConfig, PRelu, PReluConfig, PaddingConfig1d, PaddingConfig2d,
    PaddingConfig3d, RmsNorm, RmsNormConfig, Rnn, RnnConfig,
};
use burn::store::ModuleRecord;
use burn::store::burn_pack::{Reader, Tensor as Entry, Writer};
use burn::tensor::activation::{gelu, relu, sigmoid, tanh};
use burn::tensor::{Device, Int, Tensor};

use crate::case::{Case, Problem, Verdict};
use crate::saved::{Saved, Value};

/// A layer that carries states from step to step, stacked or in two directions.
#[derive(Module, Debug)]
struct Stack<M: Module> {
    layers: Vec<M>,
}

/// A tensor of some rank.
#[derive(Clone)]
enum Data {
    Ints(Tensor<2, Int>),
    Two(Tensor<2>),
    Three(Tensor<3>),
    Four(Tensor<4>),
    Five(Tensor<5>),
}

type Forward = Box<dyn Fn(Data) -> Result<Data, Problem>>;

/// Compute the output of a folder below `torch-nn` from its converted file.
pub fn run(case: &Case) -> Result<Vec<Verdict>, Problem> {
    let saved = match Saved::open(&case.folder.join("model.pt"))? {
        Some(saved) => saved,
        None => described(case.io["about"].as_str().unwrap_or_default())?,
    };
    let mut parts = Parts::of(case)?;
    let mut data = input(case)?;
    if saved.class == "Sequential" {
        for (name, child) in &saved.children {
            data = layer(child, &mut parts, name, &case.device)?(data)?;
        }
    } else {
        let [(name, child)] = saved.children.as_slice() else {
            return Err(format!("{} has not one child but {}", saved.class, saved.children.len()).into());
        };
        data = layer(child, &mut parts, name, &case.device)?(data)?;
    }
    parts.finish()?;
    Ok(vec![match data {
        Data::Ints(_) => return Err("the output is no float".into()),
        Data::Two(x) => case.compare("y", x)?,
        Data::Three(x) => case.compare("y", x)?,
        Data::Four(x) => case.compare("y", x)?,
        Data::Five(x) => case.compare("y", x)?,
    }])
}

fn input(case: &Case) -> Result<Data, Problem> {
    Ok(match (case.input_rank("x")?, case.input_is_float("x")?) {
        (2, false) => Data::Ints(case.ints("x")?),
        (2, true) => Data::Two(case.floats("x")?),
        (3, true) => Data::Three(case.floats("x")?),
        (4, true) => Data::Four(case.floats("x")?),
        (5, true) => Data::Five(case.floats("x")?),
        (rank, _) => return Err(format!("an input of rank {rank}").into()),
    })
}

/// The converted file, given out layer by layer.
struct Parts {
    tensors: Vec<Entry>,
    cast: bool,
}

impl Parts {
    fn of(case: &Case) -> Result<Self, Problem> {
        Ok(Self { tensors: Reader::from_file(&case.converted)?.into_tensors()?, cast: case.cast })
    }

    fn has(&self, name: &str) -> bool {
        self.tensors.iter().any(|tensor| tensor.name == name)
    }

    /// Load all below a name into a module, strictly.
    fn load<M: Module>(&mut self, name: &str, module: M) -> Result<M, Problem> {
        let prefix = format!("{name}.");
        let (own, rest) = std::mem::take(&mut self.tensors).into_iter().partition(|t| t.name.starts_with(&prefix));
        self.tensors = rest;
        let own: Vec<Entry> = own;
        let stripped = own.into_iter().map(|tensor| {
            let (name, dtype, shape, id, bytes) = tensor.into_parts()?;
            Ok(Entry::new(name[prefix.len()..].to_string(), dtype, shape, id, bytes))
        });
        let stripped: Result<Vec<Entry>, Problem> = stripped.collect();
        let record = ModuleRecord::from_bytes(Writer::new(stripped?).into_bytes()?)?;
        Ok(module.try_load_record(if self.cast { record.cast_to_module_dtype() } else { record })?)
    }

    fn finish(self) -> Result<(), Problem> {
        match self.tensors.first() {
            Some(tensor) => Err(format!("no layer of the module takes {}", tensor.name).into()),
            None => Ok(()),
        }
    }
}

macro_rules! by_rank {
    ($module:ident, $($rank:ident),+) => {
        Box::new(move |data| Ok(match data {
            $(Data::$rank(x) => Data::$rank($module.forward(x)),)+
            _ => return Err(concat!("an input whose rank does not fit ", stringify!($module)).into()),
        }))
    };
}

/// One torch layer as Burn's, loaded.
fn layer(saved: &Saved, parts: &mut Parts, name: &str, device: &Device) -> Result<Forward, Problem> {
    let bias = parts.has(&format!("{name}.bias"));
    let class = saved.class.trim_start_matches("Parametrized");
    Ok(match class {
        "Linear" => {
            let config = LinearConfig::new(saved.number("in_features")?, saved.number("out_features")?);
            let linear: Linear = parts.load(name, config.with_bias(bias).init(device))?;
            by_rank!(linear, Two, Three, Four)
        }
        "Embedding" => {
            let config = EmbeddingConfig::new(saved.number("num_embeddings")?, saved.number("embedding_dim")?);
            let embedding: Embedding = parts.load(name, config.init(device))?;
            Box::new(move |data| match data {
                Data::Ints(x) => Ok(Data::Three(embedding.forward(x))),
                _ => Err("an embedding of floats".into()),
            })
        }
        "Conv1d" | "Conv2d" | "Conv3d" | "ConvTranspose1d" | "ConvTranspose2d" | "ConvTranspose3d" => {
            convolution(saved, class, parts, name, bias, device)?
        }
        "BatchNorm1d" | "BatchNorm2d" | "BatchNorm3d" | "SyncBatchNorm" => {
            let config = BatchNormConfig::new(saved.number("num_features")?).with_epsilon(saved.float("eps")?);
            let norm: BatchNorm = parts.load(name, config.init(device))?;
            by_rank!(norm, Two, Three, Four, Five)
        }
        "GroupNorm" => {
            let config = GroupNormConfig::new(saved.number("num_groups")?, saved.number("num_channels")?);
            let config = config.with_epsilon(saved.float("eps")?).with_affine(saved.flag("affine"));
            let norm: GroupNorm = parts.load(name, config.init(device))?;
            by_rank!(norm, Three, Four, Five)
        }
        "InstanceNorm1d" | "InstanceNorm2d" | "InstanceNorm3d" => {
            let config = InstanceNormConfig::new(saved.number("num_features")?).with_epsilon(saved.float("eps")?);
            let norm: InstanceNorm = parts.load(name, config.with_affine(saved.flag("affine")).init(device))?;
            by_rank!(norm, Three, Four, Five)
        }
        "LayerNorm" => {
            let [width] = saved.sizes("normalized_shape")?;
            let there = parts.has(&format!("{name}.beta"));
            let config = LayerNormConfig::new(width).with_epsilon(saved.float("eps")?).with_bias(there);
            let norm: LayerNorm = parts.load(name, config.init(device))?;
            by_rank!(norm, Two, Three, Four)
        }
        "RMSNorm" => {
            let [width] = saved.sizes("normalized_shape")?;
            // No eps means torch's: the smallest step of the dtype.
            let eps = saved.float("eps").unwrap_or(f64::from(f32::EPSILON));
            let norm: RmsNorm = parts.load(name, RmsNormConfig::new(width).with_epsilon(eps).init(device))?;
            by_rank!(norm, Two, Three, Four)
        }
        "PReLU" => {
            let config = PReluConfig::new().with_num_parameters(saved.number("num_parameters")?);
            let prelu: PRelu = parts.load(name, config.init(device))?;
            by_rank!(prelu, Two, Three, Four)
        }
        "LSTM" | "GRU" | "RNN" => recurrent(saved, parts, name, device)?,
        "MultiheadAttention" => {
            let has = |part: &str| parts.has(&format!("{name}.{part}.bias"));
            let config = MultiHeadAttentionConfig::new(saved.number("embed_dim")?, saved.number("num_heads")?)
                .with_query_bias(has("query"))
                .with_key_bias(has("key"))
                .with_value_bias(has("value"))
                .with_output_bias(has("output"));
            let attention: MultiHeadAttention = parts.load(name, config.init(device))?;
            let first = saved.flag("batch_first");
            sequence(first, move |x| attention.forward(MhaInput::self_attn(x)).context)
        }
        "TransformerEncoder" => encoder(saved, parts, name, device)?,
        "TransformerDecoder" => decoder(saved, parts, name, device)?,
        "ReLU" => everywhere(|x| relu(x), |x| relu(x), |x| relu(x)),
        "GELU" => everywhere(|x| gelu(x), |x| gelu(x), |x| gelu(x)),
        "Tanh" => everywhere(|x| tanh(x), |x| tanh(x), |x| tanh(x)),
        "Sigmoid" => everywhere(|x| sigmoid(x), |x| sigmoid(x), |x| sigmoid(x)),
        "Dropout" | "Identity" => Box::new(Ok),
        "Flatten" => Box::new(|data| {
            Ok(Data::Two(match data {
                Data::Three(x) => x.flatten(1, 2),
                Data::Four(x) => x.flatten(1, 3),
                Data::Five(x) => x.flatten(1, 4),
                Data::Two(x) => x,
                Data::Ints(_) => return Err("a map of integers".into()),
            }))
        }),
        other => return Err(format!("burn-nn has no module for {other}, or it is not written here").into()),
    })
}

/// An activation, over the ranks that a layer's output can have.
fn everywhere(
    two: fn(Tensor<2>) -> Tensor<2>,
    three: fn(Tensor<3>) -> Tensor<3>,
    four: fn(Tensor<4>) -> Tensor<4>,
) -> Forward {
    Box::new(move |data| {
        Ok(match data {
            Data::Two(x) => Data::Two(two(x)),
            Data::Three(x) => Data::Three(three(x)),
            Data::Four(x) => Data::Four(four(x)),
            _ => return Err("an activation of integers or of rank 5".into()),
        })
    })
}

/// A function of `[batch, sequence, width]`, whichever comes first.
fn sequence(batch_first: bool, f: impl Fn(Tensor<3>) -> Tensor<3> + 'static) -> Forward {
    Box::new(move |data| match data {
        Data::Three(x) if batch_first => Ok(Data::Three(f(x))),
        Data::Three(x) => Ok(Data::Three(f(x.swap_dims(0, 1)).swap_dims(0, 1))),
        _ => Err("a sequence has rank 3".into()),
    })
}

fn convolution(
    saved: &Saved,
    class: &str,
    parts: &mut Parts,
    name: &str,
    bias: bool,
    device: &Device,
) -> Result<Forward, Problem> {
    let channels = [saved.number("in_channels")?, saved.number("out_channels")?];
    let groups = saved.number("groups")?;
    if let Some(Value::Text(mode)) = saved.get("padding_mode")
        && mode != "zeros"
    {
        return Err(format!("padding mode {mode}").into());
    }
    /// The settings that all six share, in each one's number of dimensions.
    macro_rules! settings {
        ($config:expr) => {
            $config
                .with_stride(saved.sizes("stride")?)
                .with_dilation(saved.sizes("dilation")?)
                .with_groups(groups)
                .with_bias(bias)
        };
    }
    macro_rules! one {
        ($config:expr) => {{
            let ([stride], [dilation]) = (saved.sizes("stride")?, saved.sizes("dilation")?);
            $config.with_stride(stride).with_dilation(dilation).with_groups(groups).with_bias(bias)
        }};
    }
    Ok(match class {
        "Conv1d" => {
            let ([kernel], [pad]) = (saved.sizes("kernel_size")?, saved.sizes("padding")?);
            let config = one!(Conv1dConfig::new(channels[0], channels[1], kernel));
            let conv: Conv1d =
                parts.load(name, config.with_padding(PaddingConfig1d::Explicit(pad, pad)).init(device))?;
            by_rank!(conv, Three)
        }
        "Conv2d" => {
            let [y, x] = saved.sizes("padding")?;
            let config = settings!(Conv2dConfig::new(channels, saved.sizes("kernel_size")?));
            let conv: Conv2d =
                parts.load(name, config.with_padding(PaddingConfig2d::Explicit(y, x, y, x)).init(device))?;
            by_rank!(conv, Four)
        }
        "Conv3d" => {
            let [z, y, x] = saved.sizes("padding")?;
            let config = settings!(Conv3dConfig::new(channels, saved.sizes("kernel_size")?));
            let conv: Conv3d =
                parts.load(name, config.with_padding(PaddingConfig3d::Explicit(z, y, x)).init(device))?;
            by_rank!(conv, Five)
        }
        "ConvTranspose1d" => {
            let ([kernel], [pad], [out]) =
                (saved.sizes("kernel_size")?, saved.sizes("padding")?, saved.sizes("output_padding")?);
            let config = one!(ConvTranspose1dConfig::new(channels, kernel));
            let conv: ConvTranspose1d =
                parts.load(name, config.with_padding(pad).with_padding_out(out).init(device))?;
            by_rank!(conv, Three)
        }
        "ConvTranspose2d" => {
            let config = settings!(ConvTranspose2dConfig::new(channels, saved.sizes("kernel_size")?))
                .with_padding(saved.sizes("padding")?)
                .with_padding_out(saved.sizes("output_padding")?);
            let conv: ConvTranspose2d = parts.load(name, config.init(device))?;
            by_rank!(conv, Four)
        }
        _ => {
            let config = settings!(ConvTranspose3dConfig::new(channels, saved.sizes("kernel_size")?))
                .with_padding(saved.sizes("padding")?)
                .with_padding_out(saved.sizes("output_padding")?);
            let conv: ConvTranspose3d = parts.load(name, config.init(device))?;
            by_rank!(conv, Five)
        }
    })
}

/// Burn's recurrent modules have one layer; torch's stacks become a list of them.
fn recurrent(saved: &Saved, parts: &mut Parts, name: &str, device: &Device) -> Result<Forward, Problem> {
    let (input, hidden) = (saved.number("input_size")?, saved.number("hidden_size")?);
    let (layers, both, bias) = (saved.number("num_layers")?, saved.flag("bidirectional"), saved.flag("bias"));
    let first = saved.flag("batch_first");
    let width = |i: usize| match (i, both) {
        (0, _) => input,
        (_, true) => 2 * hidden,
        (_, false) => hidden,
    };
    let activation = match saved.get("nonlinearity") {
        Some(Value::Text(word)) if word == "relu" => ActivationConfig::Relu,
        _ => ActivationConfig::Tanh,
    };
    /// Load one module, or a list under numbers, and run them one after the other.
    macro_rules! stack {
        ($kind:ty, $config:expr, $run:expr) => {{
            let fresh = |i: usize| $config(width(i)).init(device);
            let list: Vec<$kind> = match layers {
                1 => vec![parts.load(name, fresh(0))?],
                _ => (0..layers).map(|i| parts.load(&format!("{name}.{i}"), fresh(i))).collect::<Result<_, _>>()?,
            };
            let stack = Stack { layers: list };
            sequence(first, move |x| stack.layers.iter().fold(x, $run))
        }};
    }
    Ok(match (saved.class.as_str(), both) {
        ("LSTM", false) => stack!(Lstm, |i| LstmConfig::new(i, hidden, bias), |x, m: &Lstm| m.forward(x, None).0),
        ("LSTM", true) => stack!(BiLstm, |i| BiLstmConfig::new(i, hidden, bias), |x, m: &BiLstm| m.forward(x, None).0),
        ("GRU", false) => stack!(Gru, |i| GruConfig::new(i, hidden, bias), |x, m: &Gru| m.forward(x, None)),
        ("GRU", true) => stack!(BiGru, |i| BiGruConfig::new(i, hidden, bias), |x, m: &BiGru| m.forward(x, None).0),
        (_, false) => {
            stack!(Rnn, |i| RnnConfig::new(i, hidden, bias).with_hidden_activation(activation.clone()), |x, m: &Rnn| m
                .forward(x, None)
                .0)
        }
        (_, true) => stack!(
            BiRnn,
            |i| BiRnnConfig::new(i, hidden, bias).with_hidden_activation(activation.clone()),
            |x, m: &BiRnn| m.forward(x, None).0
        ),
    })
}

/// Of a transformer layer: width, inner width, heads, eps, norm first, batch first, activation.
fn habits(stack: &Saved) -> Result<(usize, usize, usize, usize, f64, bool, bool, ActivationConfig), Problem> {
    let layers = stack.child("layers").ok_or("a transformer without layers")?;
    let (_, layer) = layers.children.first().ok_or("a transformer without layers")?;
    let part = |name: &str| layer.child(name).ok_or_else(|| format!("a transformer layer without {name}"));
    let (attention, inner) = (part("self_attn")?, part("linear1")?);
    let activation = match layer.function("activation").as_deref() {
        Some("gelu") => ActivationConfig::Gelu,
        Some("relu") | None => ActivationConfig::Relu,
        Some(other) => return Err(format!("a transformer layer with {other}").into()),
    };
    Ok((
        attention.number("embed_dim")?,
        inner.number("out_features")?,
        attention.number("num_heads")?,
        layers.children.len(),
        part("norm1")?.float("eps")?,
        layer.flag("norm_first"),
        attention.flag("batch_first"),
        activation,
    ))
}

fn encoder(saved: &Saved, parts: &mut Parts, name: &str, device: &Device) -> Result<Forward, Problem> {
    let (d, ff, heads, layers, eps, norm_first, batch_first, activation) = habits(saved)?;
    let config = TransformerEncoderConfig::new(d, ff, heads, layers)
        .with_norm_first(norm_first)
        .with_layer_norm_eps(eps)
        .with_activation(activation);
    let last = last_norm(saved, parts, name, device)?;
    let encoder: TransformerEncoder = parts.load(name, config.init(device))?;
    Ok(sequence(batch_first, move |x| normed(&last, encoder.forward(TransformerEncoderInput::new(x)))))
}

/// The recorded modules give the decoder its own input as memory.
fn decoder(saved: &Saved, parts: &mut Parts, name: &str, device: &Device) -> Result<Forward, Problem> {
    let (d, ff, heads, layers, eps, norm_first, batch_first, activation) = habits(saved)?;
    let config = TransformerDecoderConfig::new(d, ff, heads, layers)
        .with_norm_first(norm_first)
        .with_layer_norm_eps(eps)
        .with_activation(activation);
    let last = last_norm(saved, parts, name, device)?;
    let decoder: TransformerDecoder = parts.load(name, config.init(device))?;
    Ok(sequence(batch_first, move |x| normed(&last, decoder.forward(TransformerDecoderInput::new(x.clone(), x)))))
}

/// Torch's norm after the last layer, which Burn's stacks have not: a module beside them.
fn last_norm(saved: &Saved, parts: &mut Parts, name: &str, device: &Device) -> Result<Option<LayerNorm>, Problem> {
    let Some(norm) = saved.child("norm") else { return Ok(None) };
    let [width] = norm.sizes("normalized_shape")?;
    let config = LayerNormConfig::new(width).with_epsilon(norm.float("eps")?);
    Ok(Some(parts.load(&format!("{name}.norm"), config.init(device))?))
}

fn normed(norm: &Option<LayerNorm>, x: Tensor<3>) -> Tensor<3> {
    match norm {
        Some(norm) => norm.forward(x),
        None => x,
    }
}

/// A Sequential of one layer from its printed form, such as `(0): ParametrizedConv1d( 4, 6, kernel_size=(3,), …`.
fn described(about: &str) -> Result<Saved, Problem> {
    let start = about.find("(0): ").ok_or("io.json does not say what the layer was")? + 5;
    let (class, rest) = about[start..].split_once('(').ok_or("io.json does not say what the layer was")?;
    let settings = rest.split("(parametrizations)").next().unwrap_or(rest);
    let field = |name: &str| {
        let found = settings.split_once(&format!("{name}="))?.1;
        let text = match found.strip_prefix('(') {
            Some(tuple) => tuple.split(')').next()?,
            None => found.split([',', ' ', ')']).next()?,
        };
        let numbers = text.split(',').filter_map(|number| number.trim().parse().ok()).map(Value::Int);
        Some(numbers.collect::<Vec<_>>())
    };
    let mut attributes = vec![];
    let positional: Vec<i64> = settings.split(',').map_while(|word| word.trim().parse().ok()).collect();
    for (key, value) in ["in_channels", "out_channels"].iter().zip(&positional) {
        attributes.push((key.to_string(), Value::Int(*value)));
    }
    for key in ["in_features", "out_features"] {
        if let Some(numbers) = field(key) {
            attributes.extend(numbers.first().map(|number| (key.to_string(), number.clone())));
        }
    }
    let groups = field("groups").and_then(|numbers| numbers.first().cloned()).unwrap_or(Value::Int(1));
    attributes.push(("groups".into(), groups));
    let dimensions = field("kernel_size").map_or(0, |numbers| numbers.len());
    for (key, default) in [("kernel_size", 1), ("stride", 1), ("padding", 0), ("dilation", 1), ("output_padding", 0)] {
        let numbers = field(key).unwrap_or_else(|| vec![Value::Int(default); dimensions]);
        attributes.push((key.into(), Value::Tuple(numbers)));
    }
    let child = Saved::from_parts(class.trim(), attributes, vec![]);
    Ok(Saved::from_parts("Sequential", vec![], vec![("0".into(), child)]))
}
