//! What docs/burn.md shows as `src/main.rs`, beside what its commands wrote as `src/model.rs`.

include!(concat!(env!("OUT_DIR"), "/main.rs"));
