//! SciDAC and ILDG gauge fields.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use zellige_fuzz::{changed, file};
use zellige_lqcd::files::{self, lime::MAGIC};

/// A record.
fn record(name: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = MAGIC.to_be_bytes().to_vec();
    bytes.extend([0, 1, 0, 0]);
    bytes.extend((data.len() as u64).to_be_bytes());
    bytes.extend(name.as_bytes());
    bytes.resize(144, 0);
    bytes.extend(data);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

/// Unit matrices.
static VALID: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let one = |i: usize| if i % 8 == 0 { 1.0f32 } else { 0.0 };
    let links = (0..18).flat_map(|i| one(i).to_be_bytes()).collect::<Vec<u8>>().repeat(4 * 256);
    let format = b"<ildgFormat><field>su3gauge</field><precision>32</precision><lx>4</lx><ly>4</ly><lz>4</lz><lt>4</lt></ildgFormat>";
    [
        record("ildg-format", format),
        record("scidac-private-file-xml", b"<dims>4 4 4 4</dims>"),
        record("scidac-private-record-xml", b"<precision>F</precision><datacount>4</datacount>"),
        record("ildg-binary-data", &links),
        record("scidac-record-xml", b"<info>text</info>"),
    ]
    .concat()
});

fuzz_target!(|bytes: &[u8]| {
    if let Some(bytes) = changed(bytes, &VALID)
        && let Ok(read) = files::read(&file("lattice", &bytes))
    {
        assert!(read.gauge.geometry().sites() * 288 <= bytes.len());
    }
});
