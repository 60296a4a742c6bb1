//! The staggered Dirac operator.

use std::ops::Range;

use zellige_gpu::{Address, Arg};

use super::Launch;
use super::launch::LaunchError;
use crate::sites::{Group, LANES, MatrixFormat, MatrixNumber, MatrixReals, SiteFormat};

const KERNEL: &str = "zellige_dslash";

/// Slabs that a launch takes: they are arguments.
const SLABS: usize = 64;
/// Slices that are read on each side of one; they are in at most as many slabs.
const FAR: usize = 3;
/// Threads of a block.
const THREADS: u64 = 128;
/// Blocks along the second axis of a grid: one for each slice.
const SLICES: usize = 65_535;
/// Matrices of a group for each site.
const HOPS: usize = 8;
/// Format code that the kernels take for an absent vector.
const NO_FORMAT: u32 = SiteFormat::WITH_KERNELS.len() as u32;

/// Addresses and sizes in bytes of the slabs of a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlabsAt<'a> {
    /// Storage format of the vector.
    pub format: SiteFormat,
    /// The slabs, in their order.
    pub at: &'a [(Address, u64)],
}

/// Some slabs of `y = factor D x + diagonal z`. `D` sums products of matrices and three complex
/// numbers of neighbours: in x forwards and backwards, then in y, in z and in t, one hop away with
/// the first group, three hops away with the second one. Sites of a parity have the order t, z, y,
/// x, the last the fastest.
#[derive(Clone, Debug, PartialEq)]
pub struct Staggered<'a> {
    /// Even extents of the lattice in x, y, z and t, at least 4.
    pub extents: [usize; 4],
    /// Slices of each slab except the last one, which may have fewer.
    pub slab: usize,
    /// The slices that are written: whole slabs.
    pub slices: Range<usize>,
    /// Parity of the sites that are written: true if the sum of their coordinates is odd.
    pub odd: bool,
    /// One group of eight matrices, or two.
    pub groups: &'a [Group],
    /// True if products are computed in float64, not in float32.
    pub double: bool,
    /// Columns of the vectors.
    pub columns: usize,
    /// Factor of the sums.
    pub factor: f64,
    /// Factor of `z`.
    pub diagonal: f64,
}

/// Returns true if kernels exist for these groups: all of one number format, with all 18 real
/// numbers stored and eight matrices per site.
pub fn has_dslash(groups: &[Group]) -> bool {
    let is_known = |group: &Group| {
        let MatrixFormat { number, reals } = group.format;
        reals == MatrixReals::All && number == groups[0].format.number && group.hops == HOPS
    };
    matches!(groups.len(), 1 | 2) && groups.iter().all(is_known)
}

/// Returns the launches that write some slabs of the staggered operator's product, bitwise equal to
/// [`multiply_line`](crate::sites::multiply_line): one for up to 64 slabs. `x` are the slabs that
/// are read and their numbers, `links`, `z` and `y` those of the slices that are written. If a
/// number `done` is given and is not 0, nothing is written.
///
/// # Errors
/// [`LaunchError`] for matrices without [kernels](has_dslash), slices that are no whole slabs,
/// slabs that are missing, and ones that are too short.
pub fn dslash(
    of: &Staggered<'_>,
    (numbers, x): (&[usize], SlabsAt<'_>),
    links: &[(Address, u64)],
    z: Option<SlabsAt<'_>>,
    y: SlabsAt<'_>,
    done: Option<Address>,
) -> Result<Vec<Launch>, LaunchError> {
    of.check()?;
    let own = of.slices.start / of.slab..of.slices.end.div_ceil(of.slab);
    for (what, got) in [
        ("the number of slabs of matrices", links.len()),
        ("the number of slabs of y", y.at.len()),
        ("the number of slabs of z", z.map_or(own.len(), |z| z.at.len())),
    ] {
        if got < own.len() {
            return too_small(what, got as u64, own.len() as u64);
        }
    }
    // All of them in one launch if it takes them and the slabs that they read.
    let at_once = if of.slabs() <= SLABS { SLABS } else { SLABS - 2 * FAR };
    let of_some = |begin: usize| {
        let slabs = begin..own.end.min(begin + at_once);
        let of_own = |at| some_of(at, begin - own.start, slabs.len());
        let z = z.map(|z| SlabsAt { at: of_own(z.at), ..z });
        of.launch(&slabs, (numbers, x), of_own(links), z, SlabsAt { at: of_own(y.at), ..y }, done)
    };
    own.clone().step_by(at_once).map(of_some).collect()
}

fn some_of(at: &[(Address, u64)], begin: usize, count: usize) -> &[(Address, u64)] {
    &at[begin..begin + count]
}

fn too_small<T>(what: &'static str, got: u64, least: u64) -> Result<T, LaunchError> {
    Err(LaunchError::TooSmall { kernel: KERNEL, what, got, least })
}

/// An array that is not read.
const NOTHING: Arg = Arg::Read(Address(0), 0);

impl Staggered<'_> {
    fn check(&self) -> Result<(), LaunchError> {
        let (kernel, [nx, ny, nz, nt]) = (KERNEL, self.extents);
        let least = self.extents.into_iter().min().unwrap_or(0);
        if least < 4 {
            return too_small("an extent of the lattice", least as u64, 4);
        }
        let sites = [ny, nz, nt].iter().try_fold(nx, |sites, &extent| sites.checked_mul(extent));
        let most = 1 << 29;
        if let Some(got) = sites.is_none_or(|sites| sites > most).then(|| sites.unwrap_or(usize::MAX)) {
            let (got, most) = (got as u64, most as u64);
            return Err(LaunchError::TooLarge { kernel, what: "the number of sites", got, most });
        }
        let Range { start, end } = self.slices;
        if self.slab == 0 || start >= end || self.columns == 0 {
            return too_small("slices, those of a slab, or columns", 0, 1);
        }
        if end > nt {
            return Err(LaunchError::TooLarge { kernel, what: "a slice", got: end as u64, most: nt as u64 });
        }
        if !start.is_multiple_of(self.slab) || end != nt && !end.is_multiple_of(self.slab) {
            let next = end.next_multiple_of(self.slab);
            return too_small("slices, which are to be whole slabs,", end as u64, next as u64);
        }
        if self.slab > SLICES / SLABS {
            let (got, most) = (self.slab as u64, (SLICES / SLABS) as u64);
            return Err(LaunchError::TooLarge { kernel, what: "the number of slices of a slab", got, most });
        }
        if !has_dslash(self.groups) {
            let what = "the number of groups of matrices that are stored whole and alike";
            return too_small(what, 0, 1);
        }
        Ok(())
    }

    fn line(&self) -> usize {
        self.extents[0] / 2
    }

    fn lines(&self) -> usize {
        self.extents[1] * self.extents[2]
    }

    fn slabs(&self) -> usize {
        self.extents[3].div_ceil(self.slab)
    }

    /// Slices of a slab.
    fn slices_of(&self, slab: usize) -> u64 {
        (self.slab.min(self.extents[3] - slab * self.slab)) as u64
    }

    /// Bytes of a slab of a vector.
    fn bytes(&self, slab: usize, format: SiteFormat) -> u64 {
        self.slices_of(slab) * (self.lines() * self.line() * self.columns * format.bytes()) as u64
    }

    /// Bytes of the matrices of a slab.
    fn bytes_of_links(&self, slab: usize) -> u64 {
        let words = self.groups.iter().map(Group::words).sum::<usize>() * self.line().div_ceil(LANES);
        self.slices_of(slab) * (8 * self.lines() * words) as u64
    }

    /// Returns true if the slabs `own` read slab `slab`: their stencil reaches one hop, or one and
    /// three hops, along t.
    fn reads(&self, slab: usize, own: &Range<usize>) -> bool {
        let (nt, hops) = (self.extents[3], &[0, 1, 3][..=self.groups.len()]);
        let slices = slab * self.slab..nt.min((slab + 1) * self.slab);
        let is_own = |t: usize| own.contains(&(t % nt / self.slab));
        slices.into_iter().any(|t| hops.iter().any(|&far| is_own(t + far) || is_own(t + nt - far)))
    }

    fn launch(
        &self,
        own: &Range<usize>,
        (numbers, x): (&[usize], SlabsAt<'_>),
        links: &[(Address, u64)],
        z: Option<SlabsAt<'_>>,
        y: SlabsAt<'_>,
        done: Option<Address>,
    ) -> Result<Launch, LaunchError> {
        // The slabs of x are counted from the first that may be read, around the lattice.
        let slabs = self.slabs();
        let first_of_x = if slabs <= SLABS { 0 } else { (own.start + slabs - FAR) % slabs };
        let mut of_vector = vec![NOTHING; SLABS];
        for position in 0..SLABS.min(slabs) {
            let slab = (first_of_x + position) % slabs;
            if self.reads(slab, own) {
                let found = numbers.iter().zip(x.at).find(|(number, _)| **number == slab);
                let (at, got) = found.map_or((Address(0), 0), |(_, at)| *at);
                let bytes = self.bytes(slab, x.format);
                if got < bytes {
                    return too_small("a slab of x (bytes)", got, bytes);
                }
                of_vector[position] = Arg::Read(at, bytes);
            }
        }
        let of_own =
            |what, at: &[(Address, u64)], bytes: &dyn Fn(usize) -> u64, arg: fn(Address, u64) -> Arg| {
                let each = own.clone().zip(at).map(|(slab, &(at, got))| match bytes(slab) {
                    bytes if got < bytes => too_small(what, got, bytes),
                    bytes => Ok(arg(at, bytes)),
                });
                let mut args = each.collect::<Result<Vec<_>, _>>()?;
                args.resize(SLABS, NOTHING);
                Ok(args)
            };
        let slices = own.start * self.slab..self.slices.end.min(own.end * self.slab);
        let step = |at: usize| self.groups.get(at).map_or(0.0, |group| group.step);
        let number = |number: usize| Arg::U32(number as u32);
        let [_, ny, nz, nt] = self.extents;
        let mut args = vec![
            number(self.line()),
            number(ny),
            number(nz),
            number(nt),
            number(self.slab),
            number(slabs),
            number(slices.start),
            number(first_of_x),
            Arg::U32(self.odd.into()),
            number(self.groups.len()),
            number(self.columns),
            Arg::U32(code(x.format)?),
            Arg::U32(z.map_or(Ok(NO_FORMAT), |z| code(z.format))?),
            Arg::U32(code(y.format)?),
            Arg::F64(step(0)),
            Arg::F64(step(1)),
            Arg::F64(self.factor),
            Arg::F64(self.diagonal),
            Arg::U32(done.is_some().into()),
            done.map_or(NOTHING, |done| Arg::Read(done, 8)),
        ];
        args.append(&mut of_vector);
        args.append(&mut of_own("matrices (bytes)", links, &|slab| self.bytes_of_links(slab), Arg::Read)?);
        let of_z = z.map_or((&[][..], SiteFormat::Fp64), |z| (z.at, z.format));
        args.append(&mut of_own("a slab of z (bytes)", of_z.0, &|slab| self.bytes(slab, of_z.1), Arg::Read)?);
        let write = if done.is_some() { Arg::Update } else { Arg::Write };
        args.append(&mut of_own("a slab of y (bytes)", y.at, &|slab| self.bytes(slab, y.format), write)?);
        // Eight sites of a line are interleaved, like their matrices.
        let threads = (self.lines() * self.line().next_multiple_of(LANES) * self.columns) as u64;
        let grid = [threads.div_ceil(THREADS) as u32, slices.len() as u32, 1];
        Ok(Launch { kernel: self.kernel(), grid, block: [THREADS as u32, 1, 1], args })
    }

    fn kernel(&self) -> &'static str {
        let [in_double, in_single] = match self.groups[0].format.number {
            MatrixNumber::Fp64 => ["zellige_dslash_fp64_in_fp64", "zellige_dslash_fp64_in_fp32"],
            MatrixNumber::Fp32 => ["zellige_dslash_fp32_in_fp64", "zellige_dslash_fp32_in_fp32"],
            MatrixNumber::Fixed32 => ["zellige_dslash_fixed32_in_fp64", "zellige_dslash_fixed32_in_fp32"],
            MatrixNumber::Fixed24 => ["zellige_dslash_fixed24_in_fp64", "zellige_dslash_fixed24_in_fp32"],
            MatrixNumber::Fixed16 => ["zellige_dslash_fixed16_in_fp64", "zellige_dslash_fixed16_in_fp32"],
        };
        if self.double { in_double } else { in_single }
    }
}

/// Returns the code of a format in the kernels.
fn code(format: SiteFormat) -> Result<u32, LaunchError> {
    match format {
        SiteFormat::Fp64 => Ok(0),
        SiteFormat::Fp32 => Ok(1),
        SiteFormat::Half => Ok(2),
        SiteFormat::Int20 => Ok(3),
        SiteFormat::Int30 => Ok(4),
        SiteFormat::Packed(_) => {
            let (got, most) = (format.bytes() as u64, 0);
            Err(LaunchError::TooLarge { kernel: KERNEL, what: "a record of packed integers", got, most })
        }
    }
}
