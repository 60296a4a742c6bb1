//! Delta debugging: lowers groups of items, then proves that no single item can be lowered. Where
//! costs are measured, single items are raised, too.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use crate::ledger::{Ledger, Stop};
use crate::search::linear;
use crate::space::{Assignment, Space};

/// Lowers groups of items format by format: all items by one, then those that went down by another
/// one, and so on. A group that is rejected is split in two.
pub(crate) fn lower_groups(space: &Space, ledger: &mut Ledger<'_, '_>) -> Result<(), Stop> {
    let reference = space.reference();
    let cheapest = space.cheapest();
    let at = ledger.judge(&cheapest, [])?;
    if ledger.is_accepted(at) && ledger.cost(&cheapest) <= ledger.cost(&reference) {
        return Ok(());
    }
    let order = tree_order(space);
    let mut state = reference.clone();
    for depth in 1..=space.depth() {
        let goes_down = |&item: &usize| {
            let last = reference.level(item);
            last >= depth && state.level(item) == last + 1 - depth
        };
        let items: Vec<usize> = order.iter().copied().filter(goes_down).collect();
        state = lower(space, ledger, state, &items)?;
    }
    Ok(())
}

/// Lowers as many of some items as possible by one format: groups first, then their parts, and
/// single items last. So most items are tried beside nearly all that can be lowered.
fn lower(
    space: &Space,
    ledger: &mut Ledger<'_, '_>,
    mut state: Assignment,
    items: &[usize],
) -> Result<Assignment, Stop> {
    let mut queue = VecDeque::new();
    queue.push_back(0..items.len());
    while let Some(range) = queue.pop_front() {
        if range.is_empty() {
            continue;
        }
        let candidate = state.lowered(&items[range.clone()]);
        let mut after = queue.clone();
        after.extend(parts(space, items, range.clone()));
        let at = ledger.judge(&candidate, if_rejected(space, &state, items, after))?;
        if ledger.is_accepted(at) && ledger.cost(&candidate) <= ledger.cost(&state) {
            state = candidate;
        } else {
            queue.extend(parts(space, items, range));
        }
    }
    Ok(state)
}

/// Candidates that follow if all are rejected.
fn if_rejected<'i>(
    space: &'i Space,
    state: &'i Assignment,
    items: &'i [usize],
    mut queue: VecDeque<Range<usize>>,
) -> impl Iterator<Item = Assignment> + use<'i> {
    std::iter::from_fn(move || {
        let range = queue.pop_front()?;
        queue.extend(parts(space, items, range.clone()));
        Some(state.lowered(&items[range]))
    })
}

/// Both parts of a range; none of a single item. The range is split where the largest groups meet,
/// as near to the middle as possible.
fn parts(space: &Space, items: &[usize], range: Range<usize>) -> Vec<Range<usize>> {
    if range.len() < 2 {
        return Vec::new();
    }
    let group = |at: usize| &*space.items()[items[at]].group;
    let middle = (range.start + range.end).div_ceil(2);
    let cut = (range.start + 1..range.end)
        .min_by_key(|&cut| (common(group(cut - 1), group(cut)), cut.abs_diff(middle)))
        .expect("a range of two or more has a cut");
    vec![range.start..cut, cut..range.end]
}

/// Number of groups that two paths share; equal paths share one more.
fn common(a: &str, b: &str) -> usize {
    let shared = path(a).zip(path(b)).take_while(|(a, b)| a == b).count();
    if a == b { shared + 1 } else { shared }
}

fn path(group: &str) -> impl Iterator<Item = &str> {
    group.split('/').filter(|name| !name.is_empty())
}

/// Items in the order of the tree. On each level, those that could save most come first.
pub(crate) fn tree_order(space: &Space) -> Vec<usize> {
    let reference = space.reference();
    let gain = |item: usize| reference.gain(item, 0);
    let mut of_group: HashMap<Vec<&str>, f64> = HashMap::new();
    let items = space.items();
    for (at, item) in items.iter().enumerate() {
        let names: Vec<&str> = path(&item.group).collect();
        (1..=names.len()).for_each(|end| *of_group.entry(names[..end].to_vec()).or_default() += gain(at));
    }
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by(|&a, &b| {
        let (left, right): (Vec<&str>, Vec<&str>) =
            (path(&items[a].group).collect(), path(&items[b].group).collect());
        let shared = left.iter().zip(&right).take_while(|(a, b)| a == b).count();
        // A group beside an item, or beside another group, below the shared path.
        let weight = |names: &[&str], item: usize| match names.len() > shared {
            true => of_group[&names[..=shared]],
            false => gain(item),
        };
        let name = |names: &[&str]| names.get(shared).map(ToString::to_string).unwrap_or_default();
        weight(&right, b).total_cmp(&weight(&left, a)).then(name(&left).cmp(&name(&right))).then(a.cmp(&b))
    });
    order
}

/// Lowers single items of the cheapest accepted assignment until none can go to any of its lower
/// formats.
pub(crate) fn lower_items(space: &Space, ledger: &mut Ledger<'_, '_>) -> Result<(), Stop> {
    let mut state = ledger.list[ledger.cheapest()].formats.clone();
    'lowered: loop {
        let candidates = single_steps(space, &state);
        for (at, candidate) in candidates.iter().enumerate() {
            let trial = ledger.judge(candidate, candidates[at + 1..].iter().cloned())?;
            if ledger.is_accepted(trial) && ledger.cost(candidate) <= ledger.cost(&state) {
                state = candidate.clone();
                continue 'lowered;
            }
        }
        ledger.set_minimal(&state);
        return Ok(());
    }
}

/// Tries the dearer formats of single items of the cheapest accepted assignment, where measured
/// costs may be lower; returns whether one is accepted and costs less.
pub(crate) fn raise_item(space: &Space, ledger: &mut Ledger<'_, '_>) -> Result<bool, Stop> {
    if !ledger.has_measured_costs() {
        return Ok(false);
    }
    let state = ledger.list[ledger.cheapest()].formats.clone();
    let candidates = steps(space, &state, |item| state.level(item) + 1..space.items()[item].formats.len());
    for (at, candidate) in candidates.iter().enumerate() {
        if ledger.list.len() >= linear(space) {
            break;
        }
        let trial = ledger.judge(candidate, candidates[at + 1..].iter().cloned())?;
        if ledger.is_accepted(trial) && ledger.cost(candidate) < ledger.cost(&state) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Assignments with one item in a lower format.
fn single_steps(space: &Space, state: &Assignment) -> Vec<Assignment> {
    steps(space, state, |item| 0..state.level(item))
}

/// Assignments with one item in another format, those that save most, or add least, first.
fn steps(space: &Space, state: &Assignment, levels: impl Fn(usize) -> Range<usize>) -> Vec<Assignment> {
    let items = 0..space.items().len();
    let mut steps: Vec<(f64, usize, usize)> = items
        .flat_map(|item| levels(item).map(move |level| (item, level)))
        .map(|(item, level)| (state.gain(item, level), item, level))
        .collect();
    steps.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    steps.into_iter().map(|(_, item, level)| state.with(item, level)).collect()
}
