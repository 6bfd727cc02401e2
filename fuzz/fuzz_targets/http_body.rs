//! See `penstock_agent::proxy::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| penstock_agent::proxy::fuzz::body(data));
