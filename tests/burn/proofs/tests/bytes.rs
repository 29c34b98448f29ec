//! burnpack, both ways: what Burn writes we copy byte for byte, and what one side refuses the other refuses.

use burn::module::Module;
use burn::nn::{Linear, LinearConfig, LinearLayout};
use burn::store::ModuleRecord;
use burn::store::burn_pack::{Bytes, Reader, Scalar, Tensor, Writer};
use burn::tensor::quantization::QuantScheme;
use burn::tensor::{BoolStore, DType, Device};
use burn_proofs::{Scratch, try_importer};

fn entry(name: &str, dtype: DType, shape: &[usize], id: Option<u64>) -> Tensor {
    let size = shape.iter().product::<usize>() * dtype.size();
    let bytes: Vec<u8> = match dtype {
        DType::Bool(_) => vec![0; size],
        _ => (0..size).map(|i| (i % 60) as u8).collect(),
    };
    Tensor::new(name.into(), dtype, shape.to_vec(), id, Bytes::from_bytes_vec(bytes))
}

/// Write with Burn, copy with the importer, compare.
fn copied_as_written(name: &str, writer: Writer) {
    let scratch = Scratch::new(name);
    let (theirs, ours) = (scratch.path("theirs.bpk"), scratch.path("ours.bpk"));
    writer.write_to_file(&theirs).unwrap();
    let run = try_importer(&["convert", &theirs, &ours]);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    assert_eq!(std::fs::read(&theirs).unwrap(), std::fs::read(&ours).unwrap());
}

#[test]
fn every_dtype_rank_and_id_is_copied_byte_for_byte() {
    use DType::*;
    let dtypes = [F64, F32, Flex32, F16, BF16, I64, I32, I16, I8, U64, U32, U16, U8];
    let stores = [BoolStore::Native, BoolStore::U8, BoolStore::U32].map(Bool);
    let mut tensors = vec![];
    for (i, dtype) in dtypes.into_iter().chain(stores).enumerate() {
        // Written from z to a: the data lies in this order, the table in that of the names.
        let letter = char::from(b'z' - i as u8);
        let id = [None, Some(0), Some(23), Some(24), Some(1 << 33), Some(u64::MAX)][i % 6];
        tensors.push(entry(&format!("{letter}.Variant.weight"), dtype, &[3, i % 4 + 1], id));
    }
    tensors.push(entry("scalar", F32, &[], Some(7)));
    tensors.push(entry("empty", F32, &[0, 4], None));
    tensors.push(entry("layers.0.norm.Batch.gamma", F32, &[5], None));
    copied_as_written("dtypes", Writer::new(tensors).with_metadata("format", "burnpack").with_metadata("ö", "ü"));
}

#[test]
fn every_scalar_is_copied_byte_for_byte() {
    let mut writer = Writer::new(vec![entry("momentum", DType::F32, &[2], Some(1))]);
    for (i, value) in [0, 1, 23, 24, 255, 256, 65_536, i64::MAX].into_iter().enumerate() {
        writer = writer.with_scalar(&format!("int.{i}"), Scalar::Int(value));
        writer = writer.with_scalar(&format!("negative.{i}"), Scalar::Int(-value));
        writer = writer.with_scalar(&format!("uint.{i}"), Scalar::UInt(value as u64));
    }
    let floats = [0.0, -0.0, 0.5, 0.1, f64::from(0.1f32), 1e10, 1e-3, 65_504.0, 1e300, f64::INFINITY, f64::NAN];
    for (i, value) in floats.into_iter().enumerate() {
        writer = writer.with_scalar(&format!("float.{i}"), Scalar::Float(value));
    }
    writer = writer.with_scalar("most", Scalar::UInt(u64::MAX)).with_scalar("yes", Scalar::Bool(true));
    copied_as_written("scalars", writer.with_scalar("no", Scalar::Bool(false)));
}

#[test]
fn quantised_entries_pass_through() {
    let scheme = QuantScheme::default();
    let bytes = Bytes::from_bytes_vec((0..36).collect());
    let packed = Tensor::new("packed".into(), DType::QFloat(scheme), vec![4, 8], Some(3), bytes);
    copied_as_written("quantised", Writer::new(vec![packed, entry("plain", DType::F32, &[2], None)]));
}

#[test]
fn the_example_of_the_specification_has_its_792_bytes() {
    let tensor = |name: &str, shape: &[usize], id: u64| {
        let values = (0..shape.iter().product::<usize>()).flat_map(|i| (i as f32).to_le_bytes());
        let bytes = Bytes::from_bytes_vec(values.collect());
        Tensor::new(name.into(), DType::F32, shape.to_vec(), Some(id), bytes)
    };
    let tensors = || {
        vec![
            tensor("fc.weight", &[4, 3], 14_101_554_053_607_715_927),
            tensor("fc.bias", &[3], 14_755_144_371_902_836_595),
            tensor("head.weight", &[3, 2], 3_222_552_515_581_354_512),
        ]
    };
    let written = Writer::new(tensors()).into_bytes().unwrap();
    assert_eq!(written.len(), 792);
    assert_eq!(written[..10], [0x4e, 0x52, 0x55, 0x42, 1, 0, 210, 0, 0, 0]);
    copied_as_written("example", Writer::new(tensors()));
}

#[test]
fn a_linear_of_columns_is_saved_as_torch_has_it() {
    let config = LinearConfig::new(4, 3).with_bias(false).with_layout(LinearLayout::Col);
    let linear: Linear = config.init(&Device::default());
    assert_eq!(linear.weight.dims(), [4, 3]);
    let record = linear.clone().into_record().into_bytes().unwrap();
    let saved = Reader::from_bytes(record.clone()).unwrap().into_tensors().unwrap();
    assert_eq!(saved[0].shape.to_vec(), [3, 4], "[out, in], which needs no transposition");
    let loaded = config.init(&Device::default()).load_record(ModuleRecord::from_bytes(record).unwrap());
    assert_eq!(loaded.weight.val().into_data(), linear.weight.val().into_data());
}

/// CBOR, as much as a container needs.
fn head(major: u8, n: u64) -> Vec<u8> {
    match n {
        0..24 => vec![major << 5 | n as u8],
        24..256 => vec![major << 5 | 24, n as u8],
        256..65_536 => [&[major << 5 | 25][..], &(n as u16).to_be_bytes()].concat(),
        65_536..4_294_967_296 => [&[major << 5 | 26][..], &(n as u32).to_be_bytes()].concat(),
        _ => [&[major << 5 | 27][..], &n.to_be_bytes()].concat(),
    }
}

fn text(s: &str) -> Vec<u8> {
    [head(3, s.len() as u64), s.as_bytes().to_vec()].concat()
}

/// A file of one table of tensors, each a name with its descriptor's pairs already encoded.
fn file(tensors: &[(&str, Vec<Vec<u8>>)], data: usize) -> Vec<u8> {
    let mut table = [vec![0xa1], text("tensors"), head(5, tensors.len() as u64)].concat();
    for (name, pairs) in tensors {
        table.extend(text(name));
        table.extend(head(5, pairs.len() as u64));
        table.extend(pairs.concat());
    }
    with_header(b"NRUB", 1, table.len() as u32, &table, data)
}

fn with_header(magic: &[u8; 4], version: u16, size: u32, table: &[u8], data: usize) -> Vec<u8> {
    let mut file = [&magic[..], &version.to_le_bytes(), &size.to_le_bytes(), table].concat();
    file.resize(file.len().next_multiple_of(256) + data, 0);
    file
}

fn descriptor(dtype: Vec<u8>, shape: &[u64], offsets: &[u64]) -> Vec<Vec<u8>> {
    let list = |numbers: &[u64]| {
        [vec![head(4, numbers.len() as u64)], numbers.iter().map(|n| head(0, *n)).collect()].concat().concat()
    };
    vec![
        [text("dtype"), dtype].concat(),
        [text("shape"), list(shape)].concat(),
        [text("data_offsets"), list(offsets)].concat(),
    ]
}

fn plain(shape: &[u64], offsets: &[u64]) -> Vec<Vec<u8>> {
    descriptor(text("F32"), shape, offsets)
}

/// A plain tensor of four floats with one more pair.
fn with(key: &str, value: &[u8]) -> Vec<Vec<u8>> {
    [plain(&[4], &[0, 16]), vec![[text(key), value.to_vec()].concat()]].concat()
}

#[test]
fn what_burn_refuses_we_refuse_and_what_it_takes_we_take() {
    let good = file(&[("w", plain(&[4], &[0, 16]))], 16);
    let table = good[10..10 + good[6] as usize].to_vec();
    let size = table.len() as u32;
    let cut = |n: usize| good[..good.len() - n].to_vec();
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("plain", good.clone()),
        ("another magic", with_header(b"NRUC", 1, size, &table, 16)),
        ("version 0", with_header(b"NRUB", 0, size, &table, 16)),
        ("version 2", with_header(b"NRUB", 2, size, &table, 16)),
        ("metadata beyond the limit", with_header(b"NRUB", 1, 104_857_601, &table, 16)),
        ("metadata longer than the file", with_header(b"NRUB", 1, 100_000, &table, 16)),
        ("cut by one byte", cut(1)),
        ("cut in the metadata", good[..20].to_vec()),
        ("header only", good[..10].to_vec()),
        ("less than a header", good[..7].to_vec()),
        ("bytes behind the end", [good.clone(), vec![0; 32]].concat()),
        ("end before start", file(&[("w", plain(&[4], &[16, 0]))], 16)),
        ("length not the shape's", file(&[("w", plain(&[4], &[0, 12]))], 16)),
        ("shape beyond any memory", file(&[("w", plain(&[1 << 40, 1 << 40], &[0, 16]))], 16)),
        ("offset beyond any file", file(&[("w", plain(&[4], &[u64::MAX - 3, u64::MAX]))], 16)),
        ("a bare Bool", file(&[("w", descriptor(text("Bool"), &[4], &[0, 4]))], 4)),
        ("an unknown dtype", file(&[("w", descriptor(text("F8"), &[4], &[0, 4]))], 4)),
        ("a negative id", file(&[("w", with("param_id", &[0x20]))], 16)),
        ("a null id", file(&[("w", with("param_id", &[0xf6]))], 16)),
        ("an unknown key", file(&[("w", with("colour", &text("red")))], 16)),
        ("no offsets", file(&[("w", plain(&[4], &[0, 16])[..2].to_vec())], 16)),
        ("one offset", file(&[("w", plain(&[4], &[0]))], 16)),
        (
            "a shape of text",
            file(
                &[(
                    "w",
                    vec![
                        plain(&[4], &[0, 16])[0].clone(),
                        [text("shape"), text("4")].concat(),
                        plain(&[4], &[0, 16])[2].clone(),
                    ],
                )],
                16,
            ),
        ),
        ("no tensors at all", file(&[], 0)),
        ("nothing in the table", with_header(b"NRUB", 1, 1, &[0xa0], 0)),
        ("a table that is a list", with_header(b"NRUB", 1, 1, &[0x80], 0)),
        ("unaligned data", file(&[("w", plain(&[4], &[4, 20]))], 20)),
        ("two in one place", file(&[("v", plain(&[4], &[0, 16])), ("w", plain(&[4], &[0, 16]))], 16)),
        ("one name twice", file(&[("w", plain(&[4], &[0, 16])), ("w", plain(&[4], &[256, 272]))], 272)),
    ];
    // Where a file that two readers could read differently gets no reading from us.
    let older = ["a bare Bool"]; // as Burn wrote it before 0.21: read here, refused there
    let stricter = ["one name twice", "two in one place", "bytes behind the end", "version 0"];
    let scratch = Scratch::new("limits");
    let path = scratch.path("case.bpk");
    let mut wrong = vec![];
    for (name, bytes) in cases {
        std::fs::write(&path, &bytes).unwrap();
        let theirs = Reader::from_file(&path).and_then(Reader::into_tensors);
        let run = try_importer(&["inspect", &path]);
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        match (theirs.is_ok(), run.status.success()) {
            (a, b) if a == b => {}
            (true, false) if stricter.contains(&name) => {}
            (false, true) if older.contains(&name) => {}
            (a, b) => wrong.push(format!("{name}: Burn takes it: {a} {:?}, we take it: {b} {said}", theirs.err())),
        }
        assert!(run.status.code().is_some_and(|code| code == 0 || code == 3), "{name}: {said}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
