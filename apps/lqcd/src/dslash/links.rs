//! Links of the operator, folded for output sites and stored.

use zellige_kernels::sites::{Group, LANES, MatrixFormat};
use zellige_runtime::{Buffer, Handle, Submit};

use super::{Boundary, Hopping, phase};
use crate::gauge::Gauge;
use crate::geometry::{DIRECTIONS, Geometry, Parity, T};
use crate::su3::{adjoint, norm_sqr, scale};

/// Matrices of each slab, in order of use. The sites of a line in x are interleaved, 8-lane:
/// `[hops][direction][forwards, backwards][real][site]`, with zeros beyond the end of the line.
#[derive(Clone, Debug)]
pub(super) struct Links {
    /// Groups of matrices: for one hop, and for three.
    pub groups: Vec<Group>,
    /// Matrices of each slab. Every group of eight numbers is aligned to a cache line, or to its
    /// middle.
    pub slabs: Vec<Handle<Buffer<f64>>>,
    /// Number of words for a line.
    pub words: usize,
    /// Hopping terms, whose signs the links include.
    pub hopping: Hopping,
}

impl Links {
    /// Folds fields of links, each with its number of hops.
    pub fn new(
        target: &impl Submit,
        fields: &[(&Gauge, usize)],
        hopping: Hopping,
        to: Parity,
        boundary: Boundary,
        format: MatrixFormat,
    ) -> Links {
        let geometry = fields[0].0.geometry();
        let last = fields.len() - 1;
        let group = |(i, (field, _)): (usize, &(&Gauge, usize))| {
            // Only the smeared links of an improved action are not multiples of unitary ones.
            let format = if i == last { format } else { MatrixFormat::full(format.number) };
            let numbers = field.links().iter().flatten().flatten().flat_map(|z| [z.re, z.im]);
            let largest = numbers.fold(0.0, |most: f64, x| most.max(x.abs()));
            let unit = (norm_sqr(field.link(0, 0)) / 3.0).sqrt();
            Group::new(format, 2 * DIRECTIONS, largest, unit)
        };
        let groups: Vec<Group> = fields.iter().enumerate().map(group).collect();
        let line = geometry.line();
        let words = groups.iter().map(Group::words).sum::<usize>() * line.div_ceil(LANES);
        let first = geometry.sites_of(to).start as usize;
        let of_line = |begin: usize, words: &mut [f64]| {
            let mut rest = words;
            for block in (0..line).step_by(LANES) {
                let count = LANES.min(line - block);
                for (group, (field, hops)) in groups.iter().zip(fields) {
                    let folded: [_; LANES] = std::array::from_fn(|lane| match lane < count {
                        true => {
                            let site = (first + begin + block + lane) as u32;
                            fold(field, hopping, site, *hops, boundary)
                        }
                        false => [[0.0; 18]; 2 * DIRECTIONS],
                    });
                    for hop in 0..2 * DIRECTIONS {
                        let (own, others) = rest.split_at_mut(group.words() / (2 * DIRECTIONS));
                        group.encode(&std::array::from_fn(|lane| folded[lane][hop]), own);
                        rest = others;
                    }
                }
            }
        };
        let of_slab = |slab: std::ops::Range<usize>| {
            let lines = slab.start * geometry.slice() / line..slab.end * geometry.slice() / line;
            let mut stored = Buffer::zeroed(lines.len() * words);
            for (i, own) in lines.zip(stored.chunks_exact_mut(words)) {
                of_line(i * line, own);
            }
            target.register(stored)
        };
        let slabs = geometry.slabs().map(of_slab).collect();
        Links { groups, slabs, words, hopping }
    }
}

/// Returns the matrices of a site for `hops` hops, in each direction forwards and backwards. They
/// include phase, sign and boundary condition.
fn fold(
    field: &Gauge,
    hopping: Hopping,
    site: u32,
    hops: usize,
    boundary: Boundary,
) -> [[f64; 18]; 2 * DIRECTIONS] {
    let geometry: Geometry = field.geometry();
    let at = geometry.coordinates(site);
    let mut folded = [[0.0; 18]; 2 * DIRECTIONS];
    for (mu, [forward, backward]) in folded.as_chunks_mut().0.iter_mut().enumerate() {
        let crosses = |is: bool| if boundary == Boundary::Antiperiodic && mu == T && is { -1.0 } else { 1.0 };
        let behind = geometry.neighbour(site, mu, -(hops as isize));
        let end = geometry.extents()[T];
        let [ahead, back] = match hopping {
            Hopping::Staggered => [phase(at, mu), -phase(at, mu)],
            Hopping::Wilson => [1.0; 2],
        };
        *forward = bytemuck::cast(scale(ahead * crosses(at[T] + hops >= end), field.link(site, mu)));
        *backward = bytemuck::cast(scale(back * crosses(at[T] < hops), &adjoint(field.link(behind, mu))));
    }
    folded
}
