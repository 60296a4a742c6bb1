//! Quality of searches: minimal results, costs beside the optimum, numbers of trials.

use zellige_tune::{Ended, Method, Options, Outcome, Search};

use crate::landscapes::{Landscape, all, levels};

fn search(landscape: &Landscape, method: Method) -> Outcome {
    let search = Search::new(&landscape.space, landscape.trials(), &landscape.acceptance);
    search.run(&Options { method, ..Options::default() }).expect("an outcome")
}

fn is_minimal(landscape: &Landscape, outcome: &Outcome) -> bool {
    let best = levels(&outcome.best().formats);
    landscape.accepts(&best)
        && (0..best.len()).all(|item| {
            (0..best[item]).all(|level| {
                let mut lower = best.clone();
                lower[item] = level;
                !landscape.accepts(&lower)
            })
        })
}

/// Largest number of trials that a landscape may take.
fn bound(landscape: &Landscape) -> f64 {
    let n = landscape.space.items().len() as f64;
    let steps = (0..landscape.space.items().len()).map(|item| landscape.formats(item) - 1).max();
    match landscape.is_monotone {
        true => 3.0 * n * n.log2() * steps.unwrap_or(0) as f64,
        false => n * n + 3.0 * n,
    }
}

/// Every result is minimal, 9 of 10 monotone ones are within 10 % of the optimum, and no search
/// takes more trials than its bound.
#[test]
fn fifty_landscapes() {
    let landscapes = all();
    assert_eq!(landscapes.len(), 50);
    let (mut near, mut monotone) = (0, 0);
    println!("| landscape | items | formats | trials | bound | cost / optimum | greedy | random |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    let mut ratios = [Vec::new(), Vec::new(), Vec::new()];
    for landscape in &landscapes {
        let delta = search(landscape, Method::Delta);
        let others = [Method::Greedy, Method::Random].map(|method| search(landscape, method));
        let ratio = |outcome: &Outcome| outcome.best().cost.expect("a cost") / landscape.optimum;
        let (trials, bound) = (delta.trials.len(), bound(landscape));
        println!(
            "| {} | {} | {} | {trials} | {bound:.0} | {:.3} | {:.3} ({}) | {:.3} ({}) |",
            landscape.name,
            landscape.space.items().len(),
            landscape.formats(0),
            ratio(&delta),
            ratio(&others[0]),
            others[0].trials.len(),
            ratio(&others[1]),
            others[1].trials.len(),
        );
        assert_eq!(delta.ended, Ended::Minimal, "{}", landscape.name);
        assert!(is_minimal(landscape, &delta), "{}: {:?}", landscape.name, delta.best());
        assert!(trials as f64 <= bound, "{}: {trials} trials", landscape.name);
        if landscape.is_monotone {
            monotone += 1;
            near += usize::from(ratio(&delta) <= 1.1);
            ratios[0].push(ratio(&delta));
            ratios[1].push(ratio(&others[0]));
            ratios[2].push(ratio(&others[1]));
        }
    }
    println!("monotone: {near} of {monotone} within 10 % of the optimum");
    for (name, ratios) in ["delta", "greedy", "random"].iter().zip(&ratios) {
        let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
        let worst = ratios.iter().copied().fold(0.0, f64::max);
        let within = ratios.iter().filter(|&&ratio| ratio <= 1.1).count();
        println!("{name}: {within} within 10 %, mean {mean:.3}, worst {worst:.3} of the optimum");
    }
    assert!(near * 10 >= monotone * 9, "{near} of {monotone}");
}
