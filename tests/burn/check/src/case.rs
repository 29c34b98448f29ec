//! One recorded case: inputs, outputs, settings, and the converted file.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use burn::module::Module;
use burn::store::burn_pack::Reader;
use burn::store::{BurnpackStore, ModuleRecord, ModuleSnapshot, SafetensorsStore};
use burn::tensor::{Device, Int, Tensor, TensorData};
use burn_examples::shared::Shapes;
use safetensors::{Dtype, SafeTensors};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Why no verdict can be given.
pub type Problem = Box<dyn std::error::Error>;

/// A folder of recorded inputs and outputs, with a converted file.
pub struct Case {
    pub folder: PathBuf,
    pub converted: PathBuf,
    pub device: Device,
    /// `config.json`; `Null` where the folder has none.
    pub config: Value,
    pub io: Value,
    /// Cast what is loaded to the module's dtype.
    pub cast: bool,
    /// Have Burn save the loaded module again, and compare the bytes.
    pub saves_again: bool,
    /// Instead of io.json's rtol and atol.
    pub tolerance: Option<(f64, f64)>,
    /// Names and shapes of the converted file.
    pub shapes: BTreeMap<String, Vec<usize>>,
    recorded: BTreeMap<String, TensorData>,
}

/// How far one output lies from the recorded one.
pub struct Verdict {
    pub output: String,
    pub absolute: f64,
    pub relative: f64,
    pub within: bool,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.within { "equal" } else { "DIFFERENT" };
        let Self { output, absolute, relative, .. } = self;
        write!(f, "{output}: {word}, largest difference {absolute:.3e} absolute, {relative:.3e} relative")
    }
}

impl Case {
    pub fn open(folder: impl AsRef<Path>, converted: impl AsRef<Path>) -> Result<Self, Problem> {
        let (folder, converted) = (folder.as_ref().to_path_buf(), converted.as_ref().to_path_buf());
        let config = folder.join("config.json");
        let config = if config.exists() { read_json(&config)? } else { Value::Null };
        let io = read_json(&folder.join("io.json"))?;
        let file = std::fs::read(folder.join("io.safetensors"))?;
        let mut recorded = BTreeMap::new();
        for (name, view) in SafeTensors::deserialize(&file)?.iter() {
            recorded.insert(name.to_string(), data(view.dtype(), view.shape(), view.data())?);
        }
        let shapes = if converted.extension().is_some_and(|extension| extension == "safetensors") {
            let file = std::fs::read(&converted)?;
            let tensors = SafeTensors::deserialize(&file)?;
            tensors.iter().map(|(name, view)| (name.to_string(), view.shape().to_vec())).collect()
        } else {
            Shapes::of(&converted)?.0
        };
        let device = Device::default();
        let (cast, saves_again, tolerance) = (false, false, None);
        Ok(Self { folder, converted, device, config, io, cast, saves_again, tolerance, shapes, recorded })
    }

    /// `config.json` as a family's own settings.
    pub fn config<C: DeserializeOwned>(&self) -> Result<C, Problem> {
        if self.config.is_null() {
            return Err(format!("{} has no config.json", self.folder.display()).into());
        }
        Ok(serde_json::from_value(self.config.clone())?)
    }

    /// Whether the converted file has this tensor.
    pub fn has(&self, name: &str) -> bool {
        self.shapes.contains_key(name)
    }

    /// The length of a bias, which is how many outputs its layer has.
    pub fn width(&self, name: &str) -> Option<usize> {
        self.shapes.get(name)?.first().copied()
    }

    /// The same for the models that read their sizes off a file.
    pub fn sizes(&self) -> Result<Shapes, Problem> {
        Ok(Shapes(self.shapes.clone()))
    }

    /// Load the converted file into a freshly initialised module, with Burn's strict defaults: nothing missing, nothing
    /// left over.
    pub fn load<M: Module>(&self, mut module: M) -> Result<M, Problem> {
        if self.converted.extension().is_some_and(|extension| extension == "safetensors") {
            // Only burnpack names hold enum variants.
            let mut store = SafetensorsStore::from_file(&self.converted).skip_enum_variants(true);
            let result = module.load_from(&mut store)?;
            return if result.unused.is_empty() {
                Ok(module)
            } else {
                Err(format!("unused: {:?}", result.unused).into())
            };
        }
        let record = ModuleRecord::load(&self.converted)?;
        let record = if self.cast { record.cast_to_module_dtype() } else { record };
        let module = module.try_load_record(record)?;
        if self.saves_again {
            self.compare_bytes(&module)?;
        }
        Ok(module)
    }

    /// Burn, given the file's metadata, writes the file again, byte for byte.
    fn compare_bytes<M: Module>(&self, module: &M) -> Result<(), Problem> {
        let mut store = BurnpackStore::from_bytes(None).clear_metadata();
        for (key, value) in Reader::from_file(&self.converted)?.metadata() {
            store = store.metadata(key, value);
        }
        module.save_into(&mut store)?;
        let (ours, theirs) = (std::fs::read(&self.converted)?, store.get_bytes()?);
        let differing = ours.iter().zip(theirs.iter()).position(|(a, b)| a != b);
        match differing {
            None if ours.len() == theirs.len() => Ok(()),
            at => {
                Err(format!("Burn saves {} bytes, we {}; first difference at {at:?}", theirs.len(), ours.len()).into())
            }
        }
    }

    fn recorded(&self, name: &str) -> Result<TensorData, Problem> {
        let found = self.recorded.get(name).cloned();
        found.ok_or_else(|| format!("io.safetensors has no {name}").into())
    }

    /// A recorded input of integers.
    pub fn ints<const D: usize>(&self, name: &str) -> Result<Tensor<D, Int>, Problem> {
        Ok(Tensor::from_data(self.recorded(&format!("in.{name}"))?, &self.device))
    }

    /// A recorded input of integers that may be absent.
    pub fn maybe_ints<const D: usize>(&self, name: &str) -> Option<Tensor<D, Int>> {
        self.ints(name).ok()
    }

    /// A recorded input of floats.
    pub fn floats<const D: usize>(&self, name: &str) -> Result<Tensor<D>, Problem> {
        Ok(Tensor::from_data(self.recorded(&format!("in.{name}"))?, &self.device))
    }

    /// The rank of a recorded input.
    pub fn input_rank(&self, name: &str) -> Result<usize, Problem> {
        Ok(self.recorded(&format!("in.{name}"))?.shape().len())
    }

    /// Whether a recorded input is of floats.
    pub fn input_is_float(&self, name: &str) -> Result<bool, Problem> {
        Ok(self.recorded(&format!("in.{name}"))?.dtype().is_float())
    }

    /// The rank of a recorded output.
    pub fn output_rank(&self, name: &str) -> Result<usize, Problem> {
        Ok(self.recorded(&format!("out.{name}"))?.shape().len())
    }

    /// The recorded outputs' names.
    pub fn outputs(&self) -> impl Iterator<Item = &str> {
        self.recorded.keys().filter_map(|name| name.strip_prefix("out."))
    }

    /// Compare an output with the recorded one. Rows of padding tokens are left out: what stands there means nothing.
    pub fn compare<const D: usize>(&self, name: &str, found: Tensor<D>) -> Result<Verdict, Problem> {
        let expected = self.recorded(&format!("out.{name}"))?;
        let found = found.into_data();
        if expected.shape() != found.shape() {
            let (expected, found) = (expected.shape(), found.shape());
            return Err(format!("{name} has shape {found:?}, recorded was {expected:?}").into());
        }
        let keep = self.real_rows(expected.shape())?;
        let tolerance = |key: &str| self.io[key].as_f64().ok_or_else(|| format!("io.json has no {key}"));
        let (rtol, atol) = match self.tolerance {
            Some(given) => given,
            None => (tolerance("rtol")?, tolerance("atol")?),
        };
        let row = expected.num_elements() / keep.len().max(1);
        let mut verdict = Verdict { output: name.to_string(), absolute: 0.0, relative: 0.0, within: true };
        let pairs = expected.iter::<f64>().zip(found.iter::<f64>()).enumerate();
        for (_, (expected, found)) in pairs.filter(|(i, _)| keep[i / row.max(1)]) {
            let off = (expected - found).abs();
            verdict.absolute = verdict.absolute.max(off);
            verdict.relative = verdict.relative.max(off / expected.abs().max(f64::MIN_POSITIVE));
            verdict.within &= off <= atol + rtol * expected.abs();
        }
        Ok(verdict)
    }

    fn real_rows(&self, shape: &[usize]) -> Result<Vec<bool>, Problem> {
        match self.recorded.get("in.attention_mask") {
            Some(mask) if shape.len() == 3 && shape[..2] == mask.shape()[..] => {
                Ok(mask.iter::<i64>().map(|cell| cell != 0).collect())
            }
            _ => Ok(vec![true]),
        }
    }
}

fn read_json(path: &Path) -> Result<Value, Problem> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(serde_json::from_str(&text)?)
}

fn data(dtype: Dtype, shape: &[usize], bytes: &[u8]) -> Result<TensorData, Problem> {
    Ok(match dtype {
        Dtype::F32 => TensorData::new(read(bytes, f32::from_le_bytes), shape.to_vec()),
        Dtype::F64 => TensorData::new(read(bytes, f64::from_le_bytes), shape.to_vec()),
        Dtype::I64 => TensorData::new(read(bytes, i64::from_le_bytes), shape.to_vec()),
        Dtype::I32 => TensorData::new(read(bytes, i32::from_le_bytes), shape.to_vec()),
        Dtype::BOOL => TensorData::new(bytes.iter().map(|b| i64::from(*b)).collect::<Vec<_>>(), shape.to_vec()),
        other => return Err(format!("io.safetensors holds {other:?}, which is not read here").into()),
    })
}

fn read<T, const N: usize>(bytes: &[u8], from: fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks().0.iter().map(|chunk| from(*chunk)).collect()
}
