//! Bits depend on the place of an operation in the run, never on instructions or threads.

use zellige_stochastic::{
    Categories, Category, Eight, Perturbation, Sample, Samples, Scope, Sixteen, Stochastic, Three, element,
    vectorize,
};

/// Sum of products of a row, as a kernel computes it.
#[inline(always)]
fn dot<S: Samples>(row: usize, a: &[f64], x: &[f64]) -> Stochastic<f64, S> {
    element(row as u64);
    let mut sum = Stochastic::new(0.0);
    for (&a, &x) in a.iter().zip(x) {
        sum += Stochastic::new(a) * Stochastic::new(x) / Stochastic::new(3.0);
    }
    sum
}

fn data() -> (Vec<f64>, Vec<f64>) {
    let a = (0..500).map(|k| 1.0 / (1.0 + f64::from(k * 7 % 101))).collect();
    let x = (0..500).map(|k| f64::from(k * 13 % 97) - 48.3).collect();
    (a, x)
}

fn bits<S: Samples>(x: Stochastic<f64, S>) -> Vec<u64> {
    x.samples().iter().map(|x| x.to_bits()).collect()
}

fn rows_in<S: Samples>(
    scope: &Scope,
    task: u64,
    replay: u64,
    rows: impl Iterator<Item = usize>,
) -> Vec<Vec<u64>> {
    let (a, x) = data();
    scope.task(task, replay, || rows.map(|row| bits(dot::<S>(row, &a, &x))).collect())
}

#[test]
fn bits_are_the_same_however_elements_are_divided() {
    let scope = Scope::new(5);
    let whole = rows_in::<Eight>(&scope, 4, 0, 0..64);
    let backwards: Vec<_> = rows_in::<Eight>(&scope, 4, 0, (0..64).rev());
    assert!(whole.iter().eq(backwards.iter().rev()));
    let halves = std::thread::scope(|threads| {
        let parts = [0..20, 20..64].map(|rows| threads.spawn(|| rows_in::<Eight>(&scope, 4, 0, rows)));
        parts.map(|part| part.join().expect("no panic")).concat()
    });
    assert_eq!(whole, halves);
    assert_ne!(whole[0], whole[1]);
}

#[test]
fn seeds_tasks_replays_and_elements_have_bits_of_their_own() {
    let one = |seed, task, replay| rows_in::<Eight>(&Scope::new(seed), task, replay, 0..2).concat();
    let first = one(1, 0, 0);
    assert_eq!(first, one(1, 0, 0));
    assert_ne!(first, one(2, 0, 0));
    assert_ne!(first, one(1, 1, 0));
    assert_ne!(first, one(1, 0, 1));
    assert_ne!(first[..8], first[8..]);
}

/// AVX-512, AVX2 and code for any processor, each as far as this machine has it.
#[test]
fn bits_are_the_same_on_all_instruction_sets() {
    fn check<S: Samples>() {
        let (a, x) = data();
        let scope = Scope::new(9);
        scope.run(|| {
            let portable: Vec<u64> = (0..50).flat_map(|row| bits(dot::<S>(row, &a, &x))).collect();
            let best: Vec<u64> = (0..50)
                .flat_map(|row| {
                    bits(vectorize(
                        #[inline(always)]
                        || dot::<S>(row, &a, &x),
                    ))
                })
                .collect();
            assert_eq!(portable, best);
            #[cfg(target_arch = "x86_64")]
            if let Some(avx2) = pulp::x86::V3::try_new() {
                struct Row<'a>(usize, &'a [f64], &'a [f64]);
                impl Row<'_> {
                    #[inline(always)]
                    fn dot<S: Samples>(&self) -> Stochastic<f64, S> {
                        dot::<S>(self.0, self.1, self.2)
                    }
                }
                let avx2: Vec<u64> =
                    (0..50).flat_map(|row| bits(avx2.vectorize(|| Row(row, &a, &x).dot::<S>()))).collect();
                assert_eq!(portable, avx2);
            }
        });
    }
    check::<Three>();
    check::<Eight>();
    check::<Sixteen>();
}

/// Sums, differences, products and fused sums of numbers of all kinds, in turn with few and with
/// many exact digits.
#[inline(always)]
fn mixture<T: Sample, S: Samples>(numbers: &[T], results: &mut Vec<u64>) {
    let mut fourth = Stochastic::<T, S>::new(T::from_f64(1.0));
    for (i, &x) in numbers.iter().enumerate() {
        element(i as u64);
        let third = Stochastic::<T, S>::new(x) / T::from_f64(3.0);
        for &y in numbers {
            let y = Stochastic::new(y);
            for result in [third + y, third - third * y, third * y, third.mul_add(y, third), y - y * fourth] {
                results.extend(result.samples().iter().map(|x| {
                    // Bits of a NaN may differ.
                    if x.to_f64().is_nan() { u64::MAX } else { x.to_f64().to_bits() }
                }));
            }
            let next = third * fourth + y;
            fourth = if next.samples().iter().all(|x| x.to_f64().is_finite()) { next } else { third };
        }
    }
}

#[test]
fn special_numbers_have_the_same_bits_and_instabilities_on_all_instruction_sets() {
    fn check<T: Sample, S: Samples>(tiny: f64, least: f64, largest: f64) {
        let mut numbers = vec![0.0, 1.0, 1.5, 3.0, 1.0 / 3.0, 1.0 + 1e-7, f64::INFINITY, f64::NAN];
        numbers.extend([tiny, 3.0 * tiny, least, 5.0 * least, largest, 0.7 * largest, largest.sqrt()]);
        numbers.extend((0..20).map(|k| (f64::from(k) - 9.7).exp()));
        let numbers: Vec<T> = numbers.iter().flat_map(|&x| [T::from_f64(x), T::from_f64(-x)]).collect();
        for categories in [Categories::CADNA, Categories::ALL] {
            let run = |f: &dyn Fn(&mut Vec<u64>)| {
                let scope = Scope::with(7, Perturbation::Random, categories);
                let mut results = Vec::new();
                scope.run(|| f(&mut results));
                (results, scope.report())
            };
            let portable = run(&|results| mixture::<T, S>(&numbers, results));
            assert!(portable.1.count(Category::Cancellation) > 0);
            let best = run(&|results| {
                vectorize(
                    #[inline(always)]
                    || mixture::<T, S>(&numbers, results),
                );
            });
            assert!(portable == best, "{} samples of {}", S::COUNT, std::any::type_name::<T>());
        }
    }
    fn all<S: Samples>() {
        check::<f64, S>(f64::MIN_POSITIVE, f64::from_bits(1), f64::MAX);
        let least = f64::from(f32::from_bits(1));
        check::<f32, S>(f64::from(f32::MIN_POSITIVE), least, f64::from(f32::MAX));
    }
    all::<Three>();
    all::<Eight>();
    all::<Sixteen>();
}

/// The third of three samples is rounded against the second: of 1/3 one lies below, one above.
#[test]
fn three_samples_are_opposed_and_eight_are_not() {
    let scope = Scope::new(3);
    scope.run(|| {
        let (mut equal, mut all) = (0, 0);
        for _ in 0..400 {
            let third = Stochastic::<f64, Three>::new(1.0) / 3.0;
            assert_ne!(third.samples()[1], third.samples()[2]);
            equal += usize::from(third.samples()[0] == third.samples()[1]);
            let third = Stochastic::<f64, Eight>::new(1.0) / 3.0;
            all += usize::from(third.samples()[1] == third.samples()[2]);
        }
        assert!((140..260).contains(&equal) && (140..260).contains(&all), "{equal} {all}");
    });
}
