//! The text of precision rules: what is accepted is written so that it is read back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zellige_fuzz::text;
use zellige_dense::Rule;

fuzz_target!(|bytes: &[u8]| {
    let Some(text) = text(bytes) else { return };
    match text.parse::<Rule>() {
        Ok(rule) => {
            let written = rule.to_string();
            let back: Rule = written.parse().expect("what was written");
            assert_eq!(back.to_string(), written, "{text:?}");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
