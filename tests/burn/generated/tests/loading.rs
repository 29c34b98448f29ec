//! Every generated module loads the files converted for it, with nothing missing, unused or of another shape.

use burn::tensor::Device;
use burn_generated::{FAMILIES, files};

#[test]
fn every_family_loads_strictly_and_is_saved_again_byte_for_byte() {
    let device = Device::default();
    let mut faults = Vec::new();
    for (name, judge) in FAMILIES {
        faults.extend(judge(&files(), &device).into_iter().map(|fault| format!("{name}: {fault}")));
    }
    assert!(FAMILIES.len() > 50, "the table is all there");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
