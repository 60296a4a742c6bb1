//! A tomographic reconstructor in mixed precision has the same bits whatever the schedule: workers,
//! policy (the runtime's or a user's), window, trace, replay.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use zellige_dense::{
    Block, Error, RectTiled, Rule, SharedPolicy, SymmetricTiled, TileGrid, cholesky, generator, solve,
};
use zellige_runtime::{Bindings, Runtime, Submit};
use zellige_tests::every;
use zellige_tor::{Covariance, Kind, params};

use crate::common::{policies, within};

const SYSTEM: &str = include_str!("small.toml");
const LIMIT: Duration = Duration::from_secs(240);

struct Case {
    cov: Arc<Covariance>,
    edges: TileGrid,
    rows: TileGrid,
    policy: SharedPolicy,
    /// A row whose diagonal entry is taken away.
    spoilt: Option<usize>,
}

type Matrices = (SymmetricTiled<f32>, RectTiled<f32>);

impl Case {
    fn new(rule: &str) -> Case {
        let input = params::parse(Path::new("small.toml"), SYSTEM, None, params::Mode::Strict).unwrap();
        let cov = Covariance::new(&input.system, &input.atmosphere).unwrap();
        let blocks: Vec<Block> =
            cov.geometry().blocks().iter().map(|b| Block { len: b.len, group: b.wfs }).collect();
        Case {
            edges: TileGrid::auto(&blocks, 40).unwrap(),
            rows: TileGrid::uniform(cov.truth_slopes(), 50).unwrap(),
            cov: Arc::new(cov),
            policy: rule.parse::<Rule>().unwrap().into(),
            spoilt: None,
        }
    }

    fn matrices(&self, s: &impl Submit) -> Matrices {
        (
            SymmetricTiled::new(s, self.edges.clone()),
            RectTiled::new(s, "R", self.rows.clone(), self.edges.clone()),
        )
    }

    /// Everything from the parameters to the reconstructor, as tasks.
    fn submit(&self, s: &impl Submit, (a, r): &Matrices) -> Result<(), Error> {
        let from = |kind: Kind| {
            let cov = Arc::clone(&self.cov);
            let spoilt = self.spoilt.filter(|_| kind == Kind::Cmm);
            generator(move |rows, cols, out: &mut [f32], ld| {
                cov.fill(kind, rows.clone(), cols.clone(), out, ld)?;
                if let Some(row) = spoilt.filter(|row| rows.contains(row) && cols.contains(row)) {
                    out[row - rows.start + (row - cols.start) * ld] = 0.0;
                }
                Ok::<(), zellige_tor::Error>(())
            })
        };
        a.fill(s, &from(Kind::Cmm))?;
        r.fill(s, &from(Kind::Ctm(0)))?;
        cholesky(s, a, &self.policy)?;
        solve(s, a, r, &self.policy)?;
        Ok(())
    }

    fn bits(&self, rt: &Runtime, (a, r): &Matrices) -> Result<Vec<u32>, Error> {
        let mut all = a.gather(rt)?;
        all.extend(r.gather(rt)?);
        Ok(all.into_iter().map(f32::to_bits).collect())
    }

    fn run(&self, rt: &Runtime) -> Result<Vec<u32>, Error> {
        let matrices = self.matrices(rt);
        self.submit(rt, &matrices)?;
        self.bits(rt, &matrices)
    }
}

/// Rules that survive on this system, of every kind: by position, by norms, with a second low
/// precision.
const RULES: [&str; 4] = ["fp32", "hp1:band=2", "hp1:operand=1e-2", "hp1:operand=1e-2,else=x3"];

#[test]
fn schedules_do_not_change_a_bit() {
    within("determinism", LIMIT, || {
        let mut all = Vec::new();
        for (n, rule) in RULES.into_iter().enumerate() {
            let case = Case::new(rule);
            let expected = case.run(&policies::runtime("eager", 1, 8192, false)).unwrap();
            for (m, policy) in policies::ALL.into_iter().enumerate() {
                let ways = [(1, 8192, true), (2, 8192, false), (2, 3, true), (5, 8192, true), (5, 40, false)];
                let step = every(5);
                for (workers, window, trace) in ways.into_iter().skip((n + m) % step).step_by(step) {
                    let rt = policies::runtime(policy, workers, window, trace);
                    let found = case.run(&rt).unwrap();
                    assert!(
                        found == expected,
                        "{rule}: {policy}, {workers} workers, window {window}, trace {trace}: other bits"
                    );
                }
            }
            all.push(expected);
        }
        for (i, bits) in all.iter().enumerate() {
            assert!(!all[..i].contains(bits), "{} computes what another rule computes: no test", RULES[i]);
        }
    });
}

#[test]
fn replays_have_the_same_bits() {
    within("determinism of replays", LIMIT, || {
        for rule in RULES {
            let case = Case::new(rule);
            let expected = case.run(&policies::runtime("eager", 1, 8192, false)).unwrap();
            for (policy, workers) in [("lws", 1), ("lws", 2), ("stack", 5), ("assigned", 2)] {
                let rt = policies::runtime(policy, workers, 8192, false);
                let matrices = case.matrices(&rt);
                let graph = rt.record(|g| case.submit(g, &matrices)).unwrap();
                for _ in 0..3 {
                    rt.replay(&Bindings::recorded(&graph)).unwrap();
                    let found = case.bits(&rt, &matrices).unwrap();
                    assert!(found == expected, "{rule}: replay on {policy}, {workers} workers: other bits");
                }
            }
        }
    });
}

#[test]
fn a_factorisation_that_fails_names_the_same_tile_everywhere() {
    within("determinism of failures", LIMIT, || {
        let row = 131;
        let case = Case { spoilt: Some(row), ..Case::new("hp1:operand=1e-2") };
        let lost = |rt: &Runtime| match case.run(rt) {
            Ok(_) => panic!("an indefinite matrix was factorised"),
            Err(error) => {
                *error.not_positive_definite().unwrap_or_else(|| panic!("another failure: {error}"))
            }
        };
        let expected = lost(&policies::runtime("eager", 1, 8192, false));
        assert_eq!(expected.row, row);
        assert!(case.edges.range(expected.tile).contains(&row));
        for policy in policies::ALL {
            for (workers, window) in [(1, 8192), (2, 5), (5, 8192)] {
                let rt = policies::runtime(policy, workers, window, false);
                assert_eq!(lost(&rt), expected, "{policy}, {workers} workers, window {window}");
                // The same runtime goes on with a rule that survives.
                assert!(Case::new("fp32").run(&rt).is_ok());
            }
        }
    });
}
