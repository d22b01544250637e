#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| taskgate_fuzz::check("dialects", data));
