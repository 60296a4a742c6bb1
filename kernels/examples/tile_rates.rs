//! Rates of the tile kernels and their ratio to GEMM, measured in turn in one run: one thread.
use std::time::Instant;
use zellige_kernels::*;

fn time(reps: usize, f: &mut dyn FnMut()) -> f64 {
    let t = Instant::now();
    for _ in 0..reps {
        f();
    }
    t.elapsed().as_secs_f64() / reps as f64
}

fn table<T: Scalar>(name: &str, n: usize) {
    let spd: Vec<T> = (0..n * n)
        .map(|e| {
            let (i, j) = (e % n, e / n);
            T::from_f64(if i == j {
                n as f64
            } else {
                1.0 / (1.0 + (i as f64 - j as f64).abs())
            })
        })
        .collect();
    let mut l = spd.clone();
    potrf_lower(MatMut::new(&mut l, n, n, n).unwrap()).unwrap();
    let a = spd.clone();
    let b0: Vec<T> = spd.iter().map(|&x| x + T::ONE).collect();
    let (mut c, mut b, mut p) = (spd.clone(), b0.clone(), spd.clone());
    let m = |x| MatRef::new(x, n, n, n).unwrap();
    let f = (n as f64).powi(3);
    let reps = ((1.5e8 / f) as usize).max(1);
    let tiny = T::from_f64(-1e-9);
    let mut best = [f64::MAX; 7];
    for _ in 0..15 {
        let t = [
            time(reps, &mut || {
                gemm(
                    tiny,
                    m(&a),
                    Op::None,
                    m(&a),
                    Op::Trans,
                    T::ONE,
                    MatMut::new(&mut c, n, n, n).unwrap(),
                )
                .unwrap()
            }),
            time(reps, &mut || {
                syrk_lower(tiny, m(&a), T::ONE, MatMut::new(&mut c, n, n, n).unwrap()).unwrap()
            }),
            time(reps, &mut || {
                b.copy_from_slice(&b0);
                trsm_right_lower(Op::Trans, m(&l), MatMut::new(&mut b, n, n, n).unwrap()).unwrap()
            }),
            time(reps, &mut || {
                b.copy_from_slice(&b0);
                trsm_right_lower(Op::None, m(&l), MatMut::new(&mut b, n, n, n).unwrap()).unwrap()
            }),
            time(reps, &mut || {
                b.copy_from_slice(&b0);
                trsm_left_lower(Op::None, m(&l), MatMut::new(&mut b, n, n, n).unwrap()).unwrap()
            }),
            time(reps, &mut || {
                p.copy_from_slice(&spd);
                potrf_lower(MatMut::new(&mut p, n, n, n).unwrap()).unwrap()
            }),
            time(reps, &mut || {
                gemm(
                    tiny,
                    m(&a),
                    Op::None,
                    m(&a),
                    Op::None,
                    T::ONE,
                    MatMut::new(&mut c, n, n, n).unwrap(),
                )
                .unwrap()
            }),
        ];
        for (b, t) in best.iter_mut().zip(t) {
            *b = b.min(t);
        }
    }
    let flops = [2.0, 1.0, 1.0, 1.0, 1.0, 1.0 / 3.0, 2.0];
    let rate: Vec<f64> = flops
        .iter()
        .zip(best)
        .map(|(x, t)| x * f / t / 1e9)
        .collect();
    print!("{name} {n:5}  gemm {:6.1} GF/s", rate[0]);
    for (k, r) in ["syrk", "trsm_rt", "trsm_rn", "trsm_ln", "potrf", "gemm_nn"]
        .iter()
        .zip(&rate[1..])
    {
        print!("  {k} {r:6.1} ({:.3})", r / rate[0]);
    }
    println!();
}

fn main() {
    for n in [128, 256, 512] {
        table::<f32>("f32", n);
        table::<f64>("f64", n);
    }
}
