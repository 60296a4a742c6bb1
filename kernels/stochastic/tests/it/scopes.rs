//! Scopes, reports and text.

use zellige_stochastic::{
    Categories, Category, Continuous, DigitMap, Perturbation, Report, Scope, Stochastic, TrustOptions,
};

fn noise() -> Stochastic<f64> {
    Stochastic::<f64>::new(0.1) + 0.2 - 0.3
}

#[test]
fn each_category_is_counted_at_its_place() {
    let scope = Scope::new(1);
    let line = scope.run(|| {
        let z = noise();
        let _ = Stochastic::<f64>::new(1.0) / z;
        let _ = Stochastic::<f64>::new(1.0) / 0.0;
        let _ = z * z;
        let _ = (z == 0.0, z < 0.0);
        let _ = z.sqrt();
        let _ = (z.floor(), z.abs());
        let _ = z.powi(2);
        let _ = Stochastic::<f64>::new(1e300) * 1e300;
        let _ = (Stochastic::<f64>::new(0.0) / 0.0, line!());
        line!() - 1
    });
    let report = scope.report();
    for (category, count) in [
        (Category::Cancellation, 1),
        (Category::Division, 3),
        (Category::Multiplication, 1),
        (Category::Branching, 1),
        (Category::Function, 1),
        (Category::Intrinsic, 1),
        (Category::Power, 1),
        (Category::Infinity, 3),
    ] {
        assert_eq!(report.count(category), count, "{category:?}: {report}");
    }
    assert!(!report.is_valid() && report.to_string().contains("overestimated"));
    let site =
        report.sites.iter().find(|site| site.category == Category::NotANumber && site.place.line == line);
    assert!(site.is_some_and(|site| site.place.file.ends_with("scopes.rs")), "{report}");
    let json = serde_json::to_string(&report).expect("JSON");
    assert_eq!(serde_json::from_str::<Report>(&json).expect("a report"), report);
}

#[test]
fn categories_can_be_switched_off() {
    let categories = Categories::ALL.without(Category::Cancellation);
    let scope = Scope::with(1, Perturbation::Random, categories);
    scope.run(|| noise() * noise());
    assert_eq!(scope.report().count(Category::Cancellation), 0);
    assert_eq!(scope.report().count(Category::Multiplication), 1);
    let scope = Scope::with(1, Perturbation::Random, Categories::NONE.with(Category::Cancellation));
    scope.run(|| noise() * noise());
    assert_eq!(scope.report().sites.len(), 1);
    assert_eq!(scope.report().count(Category::Cancellation), 2);
}

#[test]
fn scopes_nest_and_threads_merge() {
    let (outer, inner) = (Scope::new(1), Scope::new(2));
    let bits = |x: Stochastic<f64>| x.samples().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    let third = || bits(Stochastic::<f64>::new(1.0) / 3.0);
    let (whole, nested) = (
        outer.run(|| [third(), third()]),
        outer.run(|| {
            let first = third();
            inner.run(|| noise() * noise());
            [first, third()]
        }),
    );
    assert_eq!(whole, nested);
    assert!(outer.report().is_empty());
    assert_eq!(inner.report().count(Category::Cancellation), 2);
    // A panic leaves the scope as it was, and what was counted before stays.
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        inner.run(|| {
            noise();
            panic!("in a scope");
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(inner.report().count(Category::Cancellation), 3);
    let serial = Scope::new(4);
    for task in 0..8 {
        serial.task(task, 0, || noise() * noise());
    }
    let parallel = Scope::new(4);
    std::thread::scope(|threads| {
        for task in (0..8).rev() {
            let parallel = &parallel;
            threads.spawn(move || parallel.task(task, 0, || noise() * noise()));
        }
    });
    assert_eq!(
        serial.report().count(Category::Cancellation),
        parallel.report().count(Category::Cancellation)
    );
    assert_eq!(parallel.report().sites[0].first.task, 0);
    let mut sum = serial.report();
    sum.merge(&inner.report());
    assert_eq!(sum.count(Category::Cancellation), 16 + 3);
}

/// Digits that many operations lose, none of them four at once: CADNA reports nothing here.
#[test]
fn gradual_loss_is_reported() {
    let program = || {
        let mut x = Stochastic::<f64>::new(2.0);
        (0..45).for_each(|_| x = x.sqrt());
        (0..45).for_each(|_| x = x * x);
        x
    };
    let scope = Scope::new(1);
    assert!(scope.run(program).digits() < 4);
    assert_eq!(scope.report().count(Category::GradualLoss), 1, "{}", scope.report());
    let as_cadna = Scope::with(1, Perturbation::Random, Categories::CADNA);
    as_cadna.run(program);
    assert!(as_cadna.report().is_empty());
}

#[test]
fn text_has_exact_digits_only() {
    let third = Stochastic::<f64>::new(1.0) / 3.0;
    let digits = third.digits() as usize;
    assert_eq!(format!("{third}"), format!("0.{}", "3".repeat(digits)));
    assert_eq!(format!("{third:e}"), format!("3.{}e-1", "3".repeat(digits - 1)));
    assert_eq!(noise().to_string(), "@.0");
    // Rounded, where CADNA cuts off.
    let two = Stochastic::<f64>::from_samples(&[99.98, 99.97, 99.99, 99.98, 99.3, 100.5, 99.98, 99.98]);
    assert_eq!((two.digits(), two.to_string().as_str()), (2, "1.0e2"));
    for (x, text) in
        [(0.0, "0"), (1.0, "1.00000000000000"), (-2.5, "-2.50000000000000"), (1e300, "1.00000000000000e300")]
    {
        assert_eq!(Stochastic::<f64>::new(x).to_string(), text);
    }
    assert_eq!(Stochastic::<f64>::new(f64::NAN).to_string(), "NaN");
    assert_eq!(Stochastic::<f64>::new(f64::INFINITY).to_string(), "inf");
    assert_eq!(format!("{:>6}|", noise()), "   @.0|");
    let json = serde_json::to_value(noise()).expect("JSON");
    assert_eq!((json["digits"].as_u64(), json["noise"].as_bool()), (Some(0), Some(true)));
}

#[test]
fn exact_numbers_have_all_digits_and_a_pivot_is_never_noise() {
    assert_eq!(Stochastic::<f64>::new(0.1).digits(), 15);
    assert_eq!(Stochastic::<f32>::new(0.1).digits(), 7);
    assert_eq!(Stochastic::<half::f16>::new(half::f16::ONE).digits(), 3);
    assert_eq!(Stochastic::<f64>::new(0.0).digits(), 15);
    let large_noise = noise() * 1e17;
    assert!(large_noise.mean().abs() < 10.0 && large_noise.pivot_key() == 0.0);
    assert_eq!(Stochastic::<f64>::new(-1.7).pivot_key(), 1.7);
    let small = Stochastic::<f64>::new(1e-3);
    // Stochastic order does not prefer 0.001 to noise of the size of 1; the key does.
    assert!(
        small.partial_cmp(&large_noise).is_some_and(std::cmp::Ordering::is_le)
            && small.pivot_key() > large_noise.pivot_key()
    );
    // One sample that is no number is enough.
    let root = Stochastic::<f64>::from_samples(&[0.0, 0.0, -1e-8, 0.0, 0.0, 0.0, 0.0, 0.0]).sqrt();
    assert!(root.digits() == 0 && !root.is_zero() && root.mean().is_nan());
    let data = Scope::new(3).run(|| Stochastic::<f64>::perturbed(5.0, 1e-6));
    assert!((5..=7).contains(&data.digits()), "{data:?}");
}

#[test]
fn monte_carlo_and_reduced_precision_are_perturbations() {
    let program = || {
        let x = Stochastic::<f64>::new(1.0) / 3.0;
        x * 3.0 - 1.0 + x
    };
    let mut last = 16;
    for bits in [50, 40, 24, 12] {
        let scope = Scope::with(2, Perturbation::MonteCarlo { bits }, Categories::NONE);
        let digits = scope.run(program).digits();
        let expected = f64::from(bits) * 2f64.log10();
        assert!(digits < last && (f64::from(digits) - expected).abs() < 2.0, "{bits} bits: {digits} digits");
        last = digits;
    }
    let single = Scope::with(0, Perturbation::Reduced { bits: 24, range: 8 }, Categories::NONE).run(program);
    let third = 1f32 / 3.0;
    assert!(single.samples().iter().all(|&x| x == f64::from(third * 3.0 - 1.0 + third)));
}

#[test]
fn continuous_arithmetic_follows_its_formulas() {
    let (x, y) = (Continuous::new(2.0, 1e-4), Continuous::new(4.0, 2e-4));
    assert!(((x + y).deviation() - 5f64.sqrt() * 1e-4).abs() < 1e-12);
    assert!(((x * y).deviation() - 32f64.sqrt() * 1e-4).abs() < 1e-12);
    assert!(((x / y).deviation() - 0.5 * (0.5e-4f64.powi(2) * 2.0).sqrt()).abs() < 1e-12);
    assert_eq!((x - x).digits(1.96), 0);
    assert_eq!(Continuous::new(1.0, 0.0).digits(1.96), 15);
}

#[test]
fn maps_of_digits_say_where_they_are_fewest() {
    let map = DigitMap::new("x", "row", [2, 3], vec![9, 8, 3, 8, 3, 12], 15);
    assert_eq!((map.worst(), map.median()), (Some((3, [0, 2])), Some(8)));
    assert_eq!(map.histogram().into_iter().collect::<Vec<_>>(), [(3, 2), (8, 2), (9, 1), (12, 1)]);
    assert_eq!(DigitMap::new("x", "row", [0, 1], vec![], 15).worst(), None);
    assert_eq!(TrustOptions::default().samples, 8);
}
