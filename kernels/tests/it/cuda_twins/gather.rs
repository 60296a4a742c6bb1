//! Arrays brought together.

use rand::RngExt;
use zellige_gpu::Address;
use zellige_kernels::cuda::gather;

use super::run_all;
use super::tile::rng;

const GUARD: u64 = 0x5eed;

fn at(array: &mut [u64]) -> (Address, u64) {
    (Address(array.as_mut_ptr().expose_provenance() as u64), 8 * array.len() as u64)
}

#[test]
fn arrays_follow_one_another() {
    let mut rng = rng(7);
    for (seed, count) in (1..).zip([1_usize, 3, 64, 65, 200]) {
        // Some are empty, some longer than the threads of all their blocks.
        let lengths = (0..count).map(|i: usize| if i % 5 == 4 { 0 } else { 1 + i * i * 97 % 20_000 });
        let mut arrays: Vec<Vec<u64>> = lengths.map(|len| (0..len).map(|_| rng.random()).collect()).collect();
        let mut expected = arrays.concat();
        let mut to = vec![GUARD; expected.len() + 1];
        expected.push(GUARD);
        let (first, bytes) = at(&mut to);
        let parts: Vec<_> = arrays.iter_mut().map(|array| at(array)).collect();
        let launches = gather((first, bytes - 8), &parts).unwrap();
        assert_eq!(launches.len(), count.div_ceil(64));
        if !run_all(&launches, seed) {
            return;
        }
        assert!(to == expected, "{count} arrays");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused = |to: u64, array: u64| {
        gather((Address(64), to), &[(Address(640), array); 2]).err().map(|error| error.to_string())
    };
    assert_eq!(refused(16, 8), None);
    assert!(refused(15, 8).unwrap().contains("room for all arrays"));
    assert!(refused(64, 12).unwrap().contains("an array"));
    assert_eq!(gather((Address(64), 0), &[]), Ok(vec![]));
}
