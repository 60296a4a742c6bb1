//! Lower bounds on the makespan of any schedule, from the time of each class of tasks on each kind
//! of worker.
//!
//! `t(r, k)` is the time of class `k` on kind `r`, which has `n(r)` workers; `N(k)` tasks of class
//! `k` are to be run, `x(r, k) >= 0` of them on kind `r`. The area bound is the linear program
//!
//! ```text
//! least T   with   sum over r of x(r, k) = N(k)           for every class k,
//!                  sum over k of t(r, k) x(r, k) <= n(r) T   for every kind r.
//! ```
//!
//! This is StarPU's and StarVZ's bound without dependencies (Agullo, Beaumont, Eyraud-Dubois and
//! Kumar, IPDPS 2016). Their mixed bound adds that the tasks of a chain run one after another, on
//! any workers: see [`Bounds::mixed`].

use std::time::Duration;

use super::simplex::Program;

/// Error for bounds of inconsistent arguments.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BoundsError(String);

/// Kinds of workers, classes of tasks, and the time of each class on each kind.
///
/// ```
/// use std::time::Duration;
/// use zellige_trace::Bounds;
///
/// let [fast, slow] = [1, 10].map(|ms| Some(Duration::from_millis(ms)));
/// let bounds = Bounds::new(
///     &[("cpu", 10), ("gpu", 1)],
///     &[("potrf", 4), ("gemm", 100)],
///     // gemm is ten times faster on the GPU; potrf runs on cores only.
///     &[vec![fast, slow], vec![None, fast]],
/// )?;
/// assert!(bounds.area() < Duration::from_millis(51));
/// assert_eq!(bounds.mixed(&[("potrf", 4)])?, bounds.area());
/// # Ok::<(), zellige_trace::BoundsError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Bounds {
    pub(super) kinds: Vec<(String, usize)>,
    pub(super) classes: Vec<(String, u64)>,
    /// Times per kind and class (ns); `None`: the class cannot run there.
    pub(super) times: Vec<Vec<Option<f64>>>,
}

impl Bounds {
    /// Creates the bounds of kinds with their number of workers, classes with their number of
    /// tasks, and the time of one task per kind (outer) and class (inner); `None` if the class
    /// cannot run there.
    ///
    /// # Errors
    ///
    /// `times` has another shape, a name occurs twice, or a class with tasks can run nowhere.
    pub fn new(
        kinds: &[(&str, usize)],
        classes: &[(&str, u64)],
        times: &[Vec<Option<Duration>>],
    ) -> Result<Bounds, BoundsError> {
        if times.len() != kinds.len() || times.iter().any(|row| row.len() != classes.len()) {
            return Err(BoundsError(format!(
                "times must be {} rows (kinds of workers) of {} (classes of tasks)",
                kinds.len(),
                classes.len()
            )));
        }
        unique("kind of worker", kinds.iter().map(|kind| kind.0))?;
        unique("class of tasks", classes.iter().map(|class| class.0))?;
        for (class, &(name, tasks)) in classes.iter().enumerate() {
            if tasks > 0 && !kinds.iter().zip(times).any(|(kind, row)| kind.1 > 0 && row[class].is_some()) {
                return Err(BoundsError(format!(
                    "no worker can run {name}: give its time on a kind that has workers"
                )));
            }
        }
        Ok(Bounds {
            kinds: kinds.iter().map(|&(name, workers)| (name.into(), workers)).collect(),
            classes: classes.iter().map(|&(name, tasks)| (name.into(), tasks)).collect(),
            times: times
                .iter()
                .map(|row| row.iter().map(|time| time.map(|time| time.as_nanos() as f64)).collect())
                .collect(),
        })
    }

    /// Returns the kinds of workers with the number of each.
    pub fn kinds(&self) -> &[(String, usize)] {
        &self.kinds
    }

    /// Returns the classes of tasks with the number of each.
    pub fn classes(&self) -> &[(String, u64)] {
        &self.classes
    }

    /// Returns the shortest time of one task of a class on any kind with workers; `None` for an
    /// unknown class and one that cannot run.
    pub fn fastest(&self, class: &str) -> Option<Duration> {
        let class = self.classes.iter().position(|known| known.0 == class)?;
        self.runs(class).map(|run| run.1).min_by(f64::total_cmp).map(nanos)
    }

    /// Returns the area bound: no schedule of these tasks on these workers is shorter, whatever the
    /// dependencies. For one kind of workers it is the work divided by their number.
    pub fn area(&self) -> Duration {
        self.solve(&[])
    }

    /// Returns the mixed bound: the area bound with the condition that the tasks of `chain`
    /// (numbers per class) also run one after the other, on any workers. Never less than
    /// [`area`](Bounds::area).
    ///
    /// For a Cholesky factorisation of `nt` tile columns the chain is `nt` potrf, `nt - 1` trsm,
    /// `nt - 1` syrk. It contains all potrf, so the chain contains as many slow ones as the area
    /// program puts on slow workers. The trsm and syrk on it may be the fastest.
    ///
    /// # Errors
    ///
    /// A class is unknown, or has fewer tasks than the chain requires.
    pub fn mixed(&self, chain: &[(&str, u64)]) -> Result<Duration, BoundsError> {
        let mut wanted = vec![0u64; self.classes.len()];
        for &(name, count) in chain {
            let class = self.classes.iter().position(|class| class.0 == name).ok_or_else(|| {
                let known: Vec<&str> = self.classes.iter().map(|class| class.0.as_str()).collect();
                BoundsError(format!("no class {name:?} for the chain: there are {}", known.join(", ")))
            })?;
            wanted[class] = wanted[class].saturating_add(count);
            if wanted[class] > self.classes[class].1 {
                return Err(BoundsError(format!(
                    "the chain wants {} tasks {name}, of which there are {}",
                    wanted[class], self.classes[class].1
                )));
            }
        }
        Ok(self.solve(&wanted))
    }

    /// Returns the kinds that can run a class, with its time there (ns).
    fn runs(&self, class: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let kinds = self.kinds.iter().enumerate().filter(|kind| kind.1.1 > 0);
        kinds.filter_map(move |(kind, _)| Some((kind, self.times[kind][class]?)))
    }

    fn solve(&self, chain: &[u64]) -> Duration {
        // Total work on the fastest kinds: the unit of time, so that numbers are near 1.
        let least = |class| self.runs(class).map(|run| run.1).min_by(f64::total_cmp).unwrap_or(0.0);
        let unit: f64 =
            (0..self.classes.len()).map(|class| self.classes[class].1 as f64 * least(class)).sum();
        if unit <= 0.0 {
            return Duration::ZERO;
        }
        match self.program(chain, unit).least() {
            Some(time) => nanos(time * unit),
            // Rounding errors defeated the simplex: this bound is valid, but smaller.
            None => nanos(unit / self.kinds.iter().map(|kind| kind.1 as f64).sum::<f64>()),
        }
    }

    /// Builds the linear program. Variable 0 is the time in `unit`s; the others are shares of a
    /// class' tasks on a kind, and of those on the chain.
    fn program(&self, chain: &[u64], unit: f64) -> Program {
        let mut shares: Vec<(usize, usize)> = Vec::new();
        for class in (0..self.classes.len()).filter(|&class| self.classes[class].1 > 0) {
            shares.extend(self.runs(class).map(|(kind, _)| (kind, class)));
        }
        let on_chain = |class: usize| chain.get(class).copied().unwrap_or(0);
        let count = |class: usize| self.classes[class].1;
        // If the whole class is on the chain, its shares there equal its total shares.
        let partly = |class: usize| on_chain(class) > 0 && on_chain(class) < count(class);
        let extra = shares.iter().filter(|share| partly(share.1)).count();
        let mut cost = vec![0.0; 1 + shares.len() + extra];
        cost[0] = 1.0;
        let mut program = Program::new(cost);

        let mut loads: Vec<Vec<(usize, f64)>> =
            self.kinds.iter().map(|&(_, workers)| vec![(0, -(workers as f64))]).collect();
        let mut sums: Vec<Vec<(usize, f64)>> = vec![vec![]; self.classes.len()];
        let mut chain_sums = sums.clone();
        let mut chain_time = vec![(0, -1.0)];
        let mut next = 1 + shares.len();
        for (place, &(kind, class)) in shares.iter().enumerate() {
            let share = 1 + place;
            let time = self.times[kind][class].unwrap_or(0.0) / unit;
            loads[kind].push((share, count(class) as f64 * time));
            sums[class].push((share, 1.0));
            let links = on_chain(class) as f64;
            if partly(class) {
                program.at_most(&[(next, links / count(class) as f64), (share, -1.0)], 0.0);
                chain_sums[class].push((next, 1.0));
                chain_time.push((next, links * time));
                next += 1;
            } else if links > 0.0 {
                chain_time.push((share, links * time));
            }
        }
        for sum in sums.iter().chain(&chain_sums).filter(|sum| !sum.is_empty()) {
            program.equal(sum, 1.0);
        }
        for load in loads.iter().chain([&chain_time]).filter(|load| load.len() > 1) {
            program.at_most(load, 0.0);
        }
        program
    }
}

fn unique<'n>(what: &str, names: impl Iterator<Item = &'n str>) -> Result<(), BoundsError> {
    let mut seen: Vec<&str> = names.collect();
    seen.sort_unstable();
    match seen.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(BoundsError(format!("{what} {:?} is there twice", pair[0]))),
        None => Ok(()),
    }
}

/// Converts to whole nanoseconds, rounded down so that a bound stays one. A small tolerance
/// compensates for the rounding of the sums.
fn nanos(time: f64) -> Duration {
    Duration::from_nanos((time * (1.0 + 1e-13)) as u64)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::simplex::tests::by_every_basis;
    use super::*;

    fn micros(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    fn some(us: u64) -> Option<Duration> {
        Some(micros(us))
    }

    /// Two classes on a GPU and two cores. One class' tasks take 10 on the GPU and 40 on a core,
    /// the other's 10 and 20 [µs].
    fn two_kinds() -> Bounds {
        let times = [vec![some(10), some(10)], vec![some(40), some(20)]];
        Bounds::new(&[("gpu", 1), ("cpu", 2)], &[("gemm", 9), ("potrf", 6)], &times).unwrap()
    }

    #[test]
    fn the_area_bound_is_that_found_by_hand() {
        // With all gemm on the GPU (90 µs) and all potrf on the cores (60 µs), gemm moves to the
        // cores until both take as long: g of them, 90 - 10 g = (120 + 40 g) / 2, so g = 1 and
        // T = 80.
        assert_eq!(two_kinds().area(), micros(80));
        let one = Bounds::new(&[("cpu", 3)], &[("a", 4), ("b", 1)], &[vec![some(10), some(35)]]).unwrap();
        assert_eq!(one.area(), micros(25));
        assert_eq!(one.fastest("b"), some(35));
        assert_eq!(two_kinds().fastest("gemm"), some(10));
        assert_eq!(two_kinds().fastest("trsm"), None);
    }

    #[test]
    fn the_mixed_bound_is_that_found_by_hand() {
        let bounds = two_kinds();
        assert_eq!(bounds.mixed(&[]).unwrap(), bounds.area());
        // Six potrf one after the other, p of them on the GPU, take T = 120 - 10 p. With g gemm on
        // the cores the GPU takes T = 90 + 10 p - 10 g, so 10 g = 20 p - 30, and the cores 2 T = 40
        // g + 20 (6 - p), so p = 3 and T = 90.
        assert_eq!(bounds.mixed(&[("potrf", 6)]).unwrap(), micros(90));
        // Three of the nine gemm follow them, on the GPU, which runs more than three: T = 150 - 10
        // p, 10 g = 20 p - 60, and 2 T = 40 g + 20 (6 - p), so p = 5.25 and T = 97.5.
        assert_eq!(bounds.mixed(&[("potrf", 6), ("gemm", 3)]).unwrap(), Duration::from_nanos(97_500));
        assert_eq!(bounds.mixed(&[("gemm", 1), ("potrf", 6), ("gemm", 2)]).unwrap().as_nanos(), 97_500);
    }

    #[test]
    fn a_class_that_cannot_run_is_refused_by_name() {
        let refused = |kinds: &[(&str, usize)], times: &[Vec<Option<Duration>>]| {
            Bounds::new(kinds, &[("a", 1), ("b", 2)], times).unwrap_err().to_string()
        };
        assert!(refused(&[("cpu", 1)], &[vec![some(1), None]]).contains("no worker can run b"));
        assert!(refused(&[("cpu", 0)], &[vec![some(1), some(1)]]).contains("no worker can run a"));
        assert!(refused(&[("cpu", 1)], &[vec![some(1)]]).contains("1 rows (kinds of workers) of 2"));
        assert!(refused(&[("cpu", 1), ("cpu", 1)], &[vec![None; 2], vec![None; 2]]).contains("twice"));
        let bounds = two_kinds();
        let wrong = |chain: &[(&str, u64)]| bounds.mixed(chain).unwrap_err().to_string();
        assert!(wrong(&[("trsm", 1)]).contains("gemm, potrf"));
        assert!(wrong(&[("potrf", 4), ("potrf", 3)]).contains("7 tasks potrf, of which there are 6"));
        assert!(wrong(&[("potrf", u64::MAX), ("potrf", 3)]).contains("of which there are 6"));
    }

    #[test]
    fn nothing_to_do_takes_no_time() {
        assert_eq!(Bounds::new(&[], &[], &[]).unwrap().area(), Duration::ZERO);
        let idle = Bounds::new(&[("cpu", 1)], &[("a", 0)], &[vec![None]]).unwrap();
        assert_eq!((idle.area(), idle.mixed(&[("a", 0)]).unwrap()), (Duration::ZERO, Duration::ZERO));
        let instant = Bounds::new(&[("cpu", 1)], &[("a", 5)], &[vec![some(0)]]).unwrap();
        assert_eq!(instant.area(), Duration::ZERO);
    }

    /// Times of one to three kinds and classes, with gaps.
    fn machines() -> impl Strategy<Value = Bounds> {
        let times = vec(vec(prop::option::weighted(0.8, 0u64..40), 3), 1..4);
        (vec(1usize..5, 3), vec(0u64..8, 1..4), times).prop_map(|(workers, counts, times)| {
            let names = ["a", "b", "c"];
            let kinds: Vec<(&str, usize)> = names.into_iter().zip(workers).take(times.len()).collect();
            let classes: Vec<(&str, u64)> = names.into_iter().zip(counts).collect();
            let times: Vec<Vec<Option<Duration>>> = times
                .iter()
                .enumerate()
                .map(|(kind, row)| {
                    // The first kind runs everything, so that everything runs.
                    let time =
                        |t: &Option<u64>| if kind == 0 { some(t.unwrap_or(7)) } else { t.and_then(some) };
                    row.iter().take(classes.len()).map(time).collect()
                })
                .collect();
            Bounds::new(&kinds, &classes, &times).unwrap()
        })
    }

    /// The shortest time of a distribution of whole tasks (without dependencies, in equal parts to
    /// the workers of a kind), at least as long as the `chain` of them, by trying every
    /// distribution.
    fn whole_tasks(bounds: &Bounds, chain: &[u64]) -> f64 {
        fn place(bounds: &Bounds, chain: &[u64], class: usize, loads: &mut Vec<f64>, path: f64) -> f64 {
            let Some(&(_, tasks)) = bounds.classes.get(class) else {
                let loads = loads.iter().zip(&bounds.kinds).map(|(load, kind)| load / kind.1 as f64);
                return loads.fold(path, f64::max);
            };
            let runs: Vec<(usize, f64)> = bounds.runs(class).collect();
            let mut best = f64::INFINITY;
            // Every way to write `tasks` as a sum over the kinds.
            let mut ways = vec![vec![]];
            for _ in 1..runs.len() {
                ways = ways
                    .into_iter()
                    .flat_map(|way: Vec<u64>| {
                        let left = tasks - way.iter().sum::<u64>();
                        (0..=left).map(move |here| way.iter().copied().chain([here]).collect())
                    })
                    .collect();
            }
            for mut way in ways {
                way.push(tasks - way.iter().sum::<u64>());
                let mut order: Vec<usize> = (0..runs.len()).collect();
                order.sort_by(|&a, &b| runs[a].1.total_cmp(&runs[b].1));
                let (mut left, mut links) = (chain.get(class).copied().unwrap_or(0), 0.0);
                for &at in &order {
                    let here = left.min(way[at]);
                    links += here as f64 * runs[at].1;
                    left -= here;
                }
                runs.iter().zip(&way).for_each(|(run, &here)| loads[run.0] += here as f64 * run.1);
                best = best.min(place(bounds, chain, class + 1, loads, path + links));
                runs.iter().zip(&way).for_each(|(run, &here)| loads[run.0] -= here as f64 * run.1);
            }
            best
        }
        place(bounds, chain, 0, &mut vec![0.0; bounds.kinds.len()], 0.0)
    }

    proptest! {
        #![proptest_config(zellige_tests::cases(48))]

        #[test]
        fn the_program_is_solved_as_by_trying_every_basis(mut bounds in machines(), part in 0u64..4) {
            // Two classes, one with a part of it on the chain: 2^17 bases.
            bounds.classes.truncate(2);
            bounds.times.iter_mut().for_each(|row| row.truncate(2));
            let chain = [bounds.classes[0].1 * part / 3];
            let expected = by_every_basis(&bounds.program(&chain, 1000.0)).unwrap() * 1000.0;
            let found = bounds.solve(&chain).as_nanos() as f64;
            prop_assert!((found - expected).abs() <= 1.0 + 1e-9 * expected, "{found} {expected}");
        }
    }

    proptest! {
        #[test]
        fn no_way_to_share_out_whole_tasks_beats_the_bounds(bounds in machines(), part in 0u64..4) {
            let area = bounds.area().as_nanos() as f64;
            let chain: Vec<u64> = bounds.classes.iter().map(|class| class.1 * part / 3).collect();
            let named: Vec<(&str, u64)> =
                bounds.classes.iter().zip(&chain).map(|(class, &links)| (class.0.as_str(), links)).collect();
            let mixed = bounds.mixed(&named).unwrap().as_nanos() as f64;
            prop_assert!(area <= whole_tasks(&bounds, &[]) * (1.0 + 1e-9));
            prop_assert!(mixed <= whole_tasks(&bounds, &chain) * (1.0 + 1e-9));
            prop_assert!(mixed + 1.0 >= area);
            // A simpler form of the chain, a part of this one.
            let links = bounds.classes.iter().zip(&chain);
            let fastest: f64 = links
                .map(|(class, &links)| bounds.fastest(&class.0).map_or(0.0, |time| links as f64 * time.as_nanos() as f64))
                .sum();
            prop_assert!(mixed + 1.0 >= fastest);
        }

        #[test]
        fn one_kind_of_workers_shares_the_work_evenly(
            workers in 1usize..100,
            classes in vec((0u64..100_000, 0u64..10_000_000), 1..30),
        ) {
            let names: Vec<String> = (0..classes.len()).map(|n| format!("c{n}")).collect();
            let named: Vec<(&str, u64)> = names.iter().zip(&classes).map(|(n, class)| (n.as_str(), class.0)).collect();
            let times = vec![classes.iter().map(|class| Some(Duration::from_nanos(class.1))).collect()];
            let bounds = Bounds::new(&[("cpu", workers)], &named, &times).unwrap();
            let work: u64 = classes.iter().map(|class| class.0 * class.1).sum();
            let expected = work / workers as u64;
            let found = bounds.area().as_nanos() as u64;
            prop_assert!(found.abs_diff(expected) <= 1, "{found} {expected}");
        }
    }
}
