//! Synthetic computations whose best assignment is known.

use zellige_tune::{Acceptance, Assignment, Item, Measures, Space, Trials};

/// Bits of a number in the formats of an item with two to five of them.
const BITS: [&[f64]; 4] =
    [&[32.0, 64.0], &[16.0, 32.0, 64.0], &[8.0, 16.0, 32.0, 64.0], &[8.0, 16.0, 24.0, 32.0, 64.0]];

type Figures = Box<dyn Fn(&[usize]) -> Measures + Send + Sync>;

/// A computation with items, measures and an acceptance.
pub struct Landscape {
    pub name: &'static str,
    pub space: Space,
    pub is_monotone: bool,
    pub acceptance: Acceptance,
    /// Smallest cost of an accepted assignment.
    pub optimum: f64,
    figures: Figures,
}

impl Landscape {
    pub fn measures(&self, levels: &[usize]) -> Measures {
        (self.figures)(levels)
    }

    pub fn trials(&self) -> Trials<'_> {
        Trials::in_turn(|formats, _| Ok(self.measures(&levels(formats))))
    }

    pub fn accepts(&self, levels: &[usize]) -> bool {
        let measures = self.measures(levels);
        // Every acceptance here compares with numbers.
        measures.get("error").is_some_and(|error| error.value <= 1.0)
    }

    pub fn formats(&self, item: usize) -> usize {
        self.space.items()[item].formats.len()
    }
}

/// Index of the format of each item; formats are named by it.
pub fn levels(formats: &Assignment) -> Vec<usize> {
    formats.iter().map(|(_, format)| format.name.parse().expect("an index")).collect()
}

pub struct SplitMix(pub u64);

impl SplitMix {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// A number from 1 to `most` whose logarithm is uniform.
    fn spread(&mut self, most: f64) -> f64 {
        most.powf((self.next() >> 11) as f64 / (1u64 << 53) as f64)
    }
}

/// Items in a tree of groups, of random sizes.
fn space(random: &mut SplitMix, n: usize, formats: usize, groups: usize) -> Space {
    let items = (0..n).map(|at| {
        let size = random.spread(100.0).round();
        let costs =
            BITS[formats - 2].iter().enumerate().map(|(level, bits)| (level.to_string(), size * bits));
        let group = match groups {
            0 => String::new(),
            _ => format!("{}/{}", at * groups / n, at * groups * 2 / n % 2),
        };
        Item::new(format!("item {at}"), group, costs)
    });
    Space::new(items.collect()).expect("items")
}

fn cost(space: &Space, levels: &[usize]) -> f64 {
    space.items().iter().zip(levels).map(|(item, &level)| item.formats[level].cost).sum()
}

/// Smallest cost by trying every assignment.
fn exhaustive(space: &Space, accepts: impl Fn(&[usize]) -> bool) -> f64 {
    let mut levels = vec![0; space.items().len()];
    let mut best = f64::INFINITY;
    loop {
        let cost = cost(space, &levels);
        if cost < best && accepts(&levels) {
            best = cost;
        }
        let Some(at) = (0..levels.len()).find(|&at| levels[at] + 1 < space.items()[at].formats.len()) else {
            return best;
        };
        levels[at] += 1;
        levels[..at].fill(0);
    }
}

/// Smallest cost where integer errors add up to at most a budget, by dynamic programming.
fn knapsack(space: &Space, errors: &[Vec<usize>], budget: usize) -> f64 {
    let mut best = vec![0.0; budget + 1];
    for (item, errors) in space.items().iter().zip(errors) {
        best = (0..=budget)
            .map(|left| {
                let choices = item.formats.iter().zip(errors).filter(|&(_, &error)| error <= left);
                choices.map(|(format, &error)| best[left - error] + format.cost).fold(f64::INFINITY, f64::min)
            })
            .collect();
    }
    best[budget]
}

/// Errors of each item by format: a weight, and a factor of four for each format below the last.
fn weighted(random: &mut SplitMix, n: usize, formats: usize) -> Vec<Vec<usize>> {
    let item = |weight: f64| {
        let error = |level: usize| weight * 4f64.powi((formats - 2) as i32 - level as i32);
        (0..formats)
            .map(|level| if level + 1 == formats { 0 } else { error(level).ceil() as usize })
            .collect()
    };
    (0..n).map(|_| item(random.spread(60.0))).collect()
}

/// Form in which the sum of errors is measured.
#[derive(Clone, Copy)]
pub enum Form {
    Sum,
    Digits,
    Root,
    YesOrNo,
}

/// Errors of items add up.
fn sum(name: &'static str, seed: u64, n: usize, formats: usize, groups: usize, form: Form) -> Landscape {
    let mut random = SplitMix(seed);
    let space = space(&mut random, n, formats, groups);
    let errors = weighted(&mut random, n, formats);
    let all: usize = errors.iter().map(|errors| errors[0]).sum();
    let budget = all * (5 + random.below(50)) / 100;
    let optimum = knapsack(&space, &errors, budget);
    let figures = move |levels: &[usize]| {
        let total: usize = levels.iter().zip(&errors).map(|(&level, errors)| errors[level]).sum();
        let share = total as f64 / budget as f64;
        let error = match form {
            Form::Sum => share,
            Form::Root => share.sqrt(),
            Form::Digits => 1.0 + share.max(1e-9).log10() / 9.0,
            Form::YesOrNo => f64::from(u8::from(total > budget)) * 2.0,
        };
        Measures::from([("error", error)])
    };
    landscape(name, space, true, optimum, figures)
}

fn landscape(
    name: &'static str,
    space: Space,
    is_monotone: bool,
    optimum: f64,
    figures: impl Fn(&[usize]) -> Measures + Send + Sync + 'static,
) -> Landscape {
    let acceptance = Acceptance::parse("error <= 1").expect("a condition");
    Landscape { name, space, is_monotone, acceptance, optimum, figures: Box::new(figures) }
}

/// A landscape whose optimum is found by trying every assignment.
fn tried(
    name: &'static str,
    space: Space,
    is_monotone: bool,
    figures: impl Fn(&[usize]) -> Measures + Send + Sync + 'static,
) -> Landscape {
    let accepts = |levels: &[usize]| figures(levels).get("error").is_some_and(|error| error.value <= 1.0);
    let optimum = exhaustive(&space, accepts);
    landscape(name, space, is_monotone, optimum, figures)
}

fn error(is_bad: bool) -> Measures {
    Measures::from([("error", if is_bad { 2.0 } else { 0.0 })])
}

/// Each item has a lowest format of its own.
fn thresholds(seed: u64, n: usize, formats: usize, groups: usize) -> Landscape {
    let mut random = SplitMix(seed);
    let space = space(&mut random, n, formats, groups);
    // Groups agree in part.
    let of_group: Vec<usize> = (0..n).map(|_| random.below(formats)).collect();
    let least: Vec<usize> = (0..n)
        .map(|at| match (groups, random.below(4)) {
            (0, _) | (_, 0) => random.below(formats),
            _ => of_group[at * groups / n],
        })
        .collect();
    let optimum = cost(&space, &least);
    landscape("a lowest format for each", space, true, optimum, move |levels| {
        error(levels.iter().zip(&least).any(|(level, least)| level < least))
    })
}

/// Of each of some sets, one item needs its last format.
fn alternatives(seed: u64, n: usize) -> Landscape {
    let mut random = SplitMix(seed);
    let space = space(&mut random, n, 2, 0);
    let sets: Vec<Vec<usize>> =
        (0..n).map(|_| (0..2 + random.below(2)).map(|_| random.below(n)).collect()).collect();
    tried("one of several", space, true, move |levels| {
        error(sets.iter().any(|set| set.iter().all(|&at| levels[at] == 0)))
    })
}

/// Errors have signs and cancel.
fn signed(seed: u64, n: usize, formats: usize) -> Landscape {
    let mut random = SplitMix(seed);
    let space = space(&mut random, n, formats, 0);
    let errors = weighted(&mut random, n, formats);
    let signs: Vec<f64> = (0..n).map(|_| if random.below(2) == 0 { 1.0 } else { -1.0 }).collect();
    let all: usize = errors.iter().map(|errors| errors[0]).sum();
    let budget = all as f64 * 0.08;
    tried("errors that cancel", space, false, move |levels| {
        let terms = levels.iter().zip(&errors).zip(&signs);
        let total: f64 = terms.map(|((&level, errors), sign)| sign * errors[level] as f64).sum();
        Measures::from([("error", total.abs() / budget)])
    })
}

/// Some assignments fail by chance.
fn holes(seed: u64, n: usize, formats: usize) -> Landscape {
    let mut random = SplitMix(seed);
    let space = space(&mut random, n, formats, 0);
    let errors = weighted(&mut random, n, formats);
    let all: usize = errors.iter().map(|errors| errors[0]).sum();
    let budget = all as f64 * 0.3;
    tried("failures by chance", space, false, move |levels| {
        let code =
            levels.iter().fold(seed, |code, &level| code.wrapping_mul(31).wrapping_add(level as u64 + 1));
        let is_reference = levels.iter().all(|&level| level + 1 == formats);
        let fails = !is_reference && SplitMix(code).below(4) == 0;
        let total: usize = levels.iter().zip(&errors).map(|(&level, errors)| errors[level]).sum();
        Measures::from([("error", if fails { 9.0 } else { total as f64 / budget })])
    })
}

/// Neighbours with different formats need a conversion, which has an error of its own.
fn conversions(seed: u64, n: usize, formats: usize) -> Landscape {
    let mut random = SplitMix(seed);
    let space = space(&mut random, n, formats, 0);
    let errors = weighted(&mut random, n, formats);
    let all: usize = errors.iter().map(|errors| errors[0]).sum();
    let budget = all as f64 * 0.4;
    tried("conversions", space, false, move |levels| {
        let total: usize = levels.iter().zip(&errors).map(|(&level, errors)| errors[level]).sum();
        let changes = levels.windows(2).filter(|pair| pair[0] != pair[1]).count();
        let conversions = 0.1 * changes as f64 * budget;
        Measures::from([("error", (total as f64 + conversions) / budget)])
    })
}

/// The 50 landscapes of the quality test.
pub fn all() -> Vec<Landscape> {
    let mut all = Vec::new();
    for (seed, &(n, formats, groups)) in
        [(8, 2, 0), (16, 3, 4), (24, 4, 3), (32, 5, 8), (64, 2, 8), (40, 3, 0), (12, 5, 2)].iter().enumerate()
    {
        all.push(thresholds(seed as u64, n, formats, groups));
    }
    let sizes = [(6, 2, 0), (10, 3, 0), (16, 4, 4), (24, 3, 6), (12, 5, 0), (32, 2, 8), (40, 4, 0)];
    for (form, name, seed) in [
        (Form::Sum, "errors add up", 100),
        (Form::Root, "root of a sum", 200),
        (Form::Digits, "digits of a sum", 300),
        (Form::YesOrNo, "a sum, yes or no", 400),
    ] {
        // The last form, which shows nothing of how far the limit is, has fewer.
        let count = if matches!(form, Form::YesOrNo) { 4 } else { sizes.len() };
        for (at, &(n, formats, groups)) in sizes.iter().enumerate().take(count) {
            all.push(sum(name, seed + at as u64, n, formats, groups, form));
        }
    }
    for (seed, n) in [(500, 8), (501, 12), (502, 14)] {
        all.push(alternatives(seed, n));
    }
    for (at, &(n, formats)) in [(8, 2), (12, 2), (14, 2), (8, 3), (7, 4)].iter().enumerate() {
        all.push(signed(600 + at as u64, n, formats));
        all.push(holes(700 + at as u64, n, formats));
        all.push(conversions(800 + at as u64, n, formats));
    }
    all
}
