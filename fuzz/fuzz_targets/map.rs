//! Precision maps: parsed, written again, and asked.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zellige_fuzz::text;
use zellige_dense::{GemmQuery, Phase, PrecisionPolicy, TileMap};

fuzz_target!(|bytes: &[u8]| {
    let Some(text) = text(bytes) else { return };
    let Ok(map) = TileMap::parse("input.json", text) else { return };
    assert_eq!(TileMap::parse("input.json", &map.to_string()).expect("what was written"), map);
    if map.tiles() > 2 {
        let query = GemmQuery::unmeasured(Phase::Factor, [2, 1, 0], map.tiles());
        map.choose(&query).expect("the precision of a tile");
    }
});
