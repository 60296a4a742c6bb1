//! Bytes of panels: what is accepted can be multiplied, in all widths, without a look at a column.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zellige_kernels::sell::Panel;

fuzz_target!(|bytes: &[u8]| {
    let Ok(panel) = Panel::from_bytes(bytes.to_vec()) else { return };
    let (rows, columns) = (panel.rows(), panel.columns());
    if rows.len() > 1 << 16 || columns.len() > 1 << 16 {
        return;
    }
    for count in [1, 2, 4, 8] {
        let x = vec![1.0; columns.len() * count];
        let mut y = vec![0.0; rows.len() * count];
        panel.multiply_part(count, columns.start, &x, &mut y).expect("lengths that fit");
    }
    assert_eq!(panel.clone().into_bytes(), bytes);
});
