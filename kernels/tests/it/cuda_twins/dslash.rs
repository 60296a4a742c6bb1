//! The staggered operator against products of lines on the CPU, bit by bit.

use rand::{Rng, RngExt};
use zellige_gpu::Address;
use zellige_kernels::cuda::{SlabsAt, Staggered, dslash};
use zellige_kernels::sites::{
    COMPONENTS, Group, LANES, MatrixFormat, MatrixNumber, MatrixReals, Real, Rows, SiteFormat, decode_sites,
    encode_sites, multiply_line,
};

use super::run_all;
use super::tile::rng;

/// Operands of a product.
#[derive(Clone, Copy, Debug)]
struct Case {
    extents: [usize; 4],
    slab: usize,
    odd: bool,
    groups: usize,
    number: MatrixNumber,
    columns: usize,
    of_x: SiteFormat,
    of_z: Option<SiteFormat>,
    of_y: SiteFormat,
}

/// A lattice and fields on it.
struct Fields {
    case: Case,
    groups: Vec<Group>,
    links: Vec<f64>,
    x: Vec<f64>,
    z: Vec<f64>,
}

const FACTOR: f64 = -0.7;
const DIAGONAL: f64 = 0.3;

impl Case {
    fn line(&self) -> usize {
        self.extents[0] / 2
    }

    fn slice(&self) -> usize {
        self.line() * self.extents[1] * self.extents[2]
    }

    fn sites(&self) -> usize {
        self.slice() * self.extents[3]
    }

    /// Returns the position of a neighbour of a site of the output: its slice, y and z, and the
    /// shift of its line.
    fn neighbour(&self, [y, z, t]: [usize; 3], hop: usize, far: usize) -> ([usize; 3], usize) {
        let [_, ny, nz, nt] = self.extents;
        let (line, half, offset) = (self.line(), far.div_ceil(2), (y + z + t + self.odd as usize) % 2);
        match hop {
            0 => ([y, z, t], offset + half - 1),
            1 => ([y, z, t], line + offset - half),
            2 => ([(y + far) % ny, z, t], 0),
            3 => ([(y + ny - far) % ny, z, t], 0),
            4 => ([y, (z + far) % nz, t], 0),
            5 => ([y, (z + nz - far) % nz, t], 0),
            6 => ([y, z, (t + far) % nt], 0),
            _ => ([y, z, (t + nt - far) % nt], 0),
        }
    }

    /// Returns numbers of many magnitudes. Some sites are zeros, some have non-finite components.
    fn field(&self, format: SiteFormat, rng: &mut impl Rng) -> Vec<f64> {
        let sites = self.sites();
        let mut words = vec![0.0; format.words(sites * self.columns)];
        for column in 0..self.columns {
            let mut rows = vec![0.0; COMPONENTS * sites];
            for site in 0..sites {
                let (kind, scale) = (rng.random_range(0..400), 2f64.powi(rng.random_range(-9..9)));
                for c in 0..COMPONENTS {
                    rows[c * sites + site] = match kind {
                        0..40 => 0.0,
                        40 if c == 2 => f64::INFINITY,
                        41 if c == 5 => f64::NAN,
                        42 => 1e38 * rng.random_range(-9.0..9.0),
                        43 => 1e-38 * rng.random_range(-9.0..9.0),
                        _ => scale * rng.random_range(-1.0..1.0),
                    };
                }
            }
            encode_sites(format, &rows, sites, &mut words, (self.columns, column), 0..sites);
        }
        words
    }

    fn fields(self, seed: u64) -> Fields {
        let mut rng = rng(seed);
        let format = MatrixFormat::full(self.number);
        let groups: Vec<Group> =
            (0..self.groups).map(|g| Group::new(format, 8, 1.0 + g as f64, 1.0)).collect();
        let mut links = Vec::new();
        let blocks = self.sites() / self.line() * self.line().div_ceil(LANES);
        for group in std::iter::repeat_n(&groups, blocks).flatten() {
            for _ in 0..8 {
                let matrices = std::array::from_fn(|_| std::array::from_fn(|_| rng.random_range(-1.0..1.0)));
                let mut words = vec![0.0; format.words()];
                group.encode(&matrices, &mut words);
                links.append(&mut words);
            }
        }
        let (x, z) = (self.field(self.of_x, &mut rng), self.of_z.map(|format| self.field(format, &mut rng)));
        Fields { case: self, groups, links, x, z: z.unwrap_or_default() }
    }
}

impl Fields {
    /// Computes all of y on the CPU.
    fn expected<R: Real>(&self) -> Vec<f64> {
        let case = &self.case;
        let (line, sites, columns) = (case.line(), case.sites(), case.columns);
        let [_, ny, nz, nt] = case.extents;
        let pitch = line.next_multiple_of(LANES);
        let words = self.groups.iter().map(Group::words).sum::<usize>() * line.div_ceil(LANES);
        let mut y = vec![0.0; case.of_y.words(sites * columns)];
        let rows_of = |format, words: &[f64], column| {
            let mut rows = vec![R::default(); COMPONENTS * sites];
            decode_sites(format, words, (columns, column), 0..sites, &mut rows, sites);
            rows
        };
        for column in 0..columns {
            let x = rows_of(case.of_x, &self.x, column);
            let z = case.of_z.map(|format| rows_of(format, &self.z, column));
            for l in 0..ny * nz * nt {
                let at = [l % ny, l / ny % nz, l / ny / nz];
                // A line for each hop.
                let mut lines = vec![R::default(); 8 * case.groups * COMPONENTS * pitch];
                for (hop, line_of_hop) in lines.chunks_exact_mut(COMPONENTS * pitch).enumerate() {
                    let ([y, z, t], shift) = case.neighbour(at, hop % 8, [1, 3][hop / 8]);
                    let first = ((t * nz + z) * ny + y) * line;
                    for (c, i) in (0..COMPONENTS).flat_map(|c| (0..line).map(move |i| (c, i))) {
                        line_of_hop[c * pitch + i] = x[c * sites + first + (i + shift) % line];
                    }
                }
                let starts: Vec<usize> = (0..8 * case.groups).map(|hop| hop * COMPONENTS * pitch).collect();
                let of_rows = Rows { pitch, column: 0 };
                let mut sums = vec![R::default(); COMPONENTS * pitch];
                let codes = &self.links[l * words..][..words];
                let (of_x, of_y) = ((&lines[..], of_rows), (&mut sums[..], of_rows));
                multiply_line(&self.groups, codes, of_x, &starts, of_y, 0, 1, &mut Vec::new());
                let (factor, diagonal) = (R::from_f64(FACTOR), R::from_f64(DIAGONAL));
                for (c, i) in (0..COMPONENTS).flat_map(|c| (0..line).map(move |i| (c, i))) {
                    let sum = &mut sums[c * pitch + i];
                    *sum = match &z {
                        Some(z) => z[c * sites + l * line + i] * diagonal + *sum * factor,
                        None => *sum * factor,
                    };
                }
                let here = l * line..(l + 1) * line;
                encode_sites(case.of_y, &sums, pitch, &mut y, (columns, column), here);
            }
        }
        y
    }

    /// Computes all of y by the twin, `at_once` slabs at a time. Returns none without g++.
    fn found(&self, double: bool, at_once: usize, seed: u64) -> Option<Vec<f64>> {
        let case = &self.case;
        let (slabs, slice) = (case.extents[3].div_ceil(case.slab), case.slice() * case.columns);
        let links_of_slice = self.links.len() / case.extents[3];
        let mut y = vec![f64::NAN; case.of_y.words(case.sites() * case.columns)];
        let address =
            |words: &[f64]| (Address(words.as_ptr().expose_provenance() as u64), 8 * words.len() as u64);
        let slab_of = |words: &[f64], of_slice: usize, slab: usize| {
            let slices = slab * case.slab..case.extents[3].min((slab + 1) * case.slab);
            address(&words[slices.start * of_slice..slices.end * of_slice])
        };
        // Writable memory has to be named as such.
        let _ = y.as_mut_ptr().expose_provenance();
        for begin in (0..slabs).step_by(at_once) {
            let own = begin..slabs.min(begin + at_once);
            let numbers: Vec<usize> = (0..slabs).rev().collect();
            let x: Vec<_> =
                numbers.iter().map(|&slab| slab_of(&self.x, case.of_x.words(slice), slab)).collect();
            let links: Vec<_> = own.clone().map(|slab| slab_of(&self.links, links_of_slice, slab)).collect();
            let of_own = |words: &[f64], format: SiteFormat| -> Vec<_> {
                own.clone().map(|slab| slab_of(words, format.words(slice), slab)).collect()
            };
            let z = case.of_z.map(|format| of_own(&self.z, format));
            let of_y = of_own(&y, case.of_y);
            let task = Staggered {
                extents: case.extents,
                slab: case.slab,
                slices: own.start * case.slab..case.extents[3].min(own.end * case.slab),
                odd: case.odd,
                groups: &self.groups,
                double,
                columns: case.columns,
                factor: FACTOR,
                diagonal: DIAGONAL,
            };
            let z = case.of_z.zip(z.as_ref()).map(|(format, at)| SlabsAt { format, at });
            let y = SlabsAt { format: case.of_y, at: &of_y };
            let x = SlabsAt { format: case.of_x, at: &x };
            let launches = dslash(&task, (&numbers, x), &links, z, y, None).unwrap();
            if !run_all(&launches, seed) {
                return None;
            }
        }
        Some(y)
    }

    /// Compares; false without g++.
    fn compare(&self, double: bool, at_once: usize, seed: u64) -> bool {
        let Some(found) = self.found(double, at_once, seed) else { return false };
        let expected = if double { self.expected::<f64>() } else { self.expected::<f32>() };
        let same = |(a, b): (&f64, &f64)| match self.case.of_y {
            SiteFormat::Fp64 => a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(),
            SiteFormat::Fp32 => {
                let halves = |x: &f64| [x.to_bits() as u32, (x.to_bits() >> 32) as u32].map(f32::from_bits);
                let pairs = halves(a).into_iter().zip(halves(b));
                pairs.into_iter().all(|(a, b)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan())
            }
            _ => a.to_bits() == b.to_bits(),
        };
        let wrong = found.iter().zip(&expected).position(|pair| !same(pair));
        assert_eq!(wrong, None, "{:?}, in double: {double}", self.case);
        true
    }
}

const CASE: Case = Case {
    extents: [4, 6, 4, 8],
    slab: 3,
    odd: false,
    groups: 2,
    number: MatrixNumber::Fp64,
    columns: 1,
    of_x: SiteFormat::Fp64,
    of_z: None,
    of_y: SiteFormat::Fp64,
};

#[test]
fn all_formats_have_the_bits_of_the_cpu() {
    let mut seed = 0;
    for number in MatrixNumber::ALL {
        for of_x in SiteFormat::WITH_KERNELS {
            for double in [false, true] {
                let next = |by: u64| SiteFormat::WITH_KERNELS[((seed + by) % 5) as usize];
                let of_z = (!seed.is_multiple_of(3)).then(|| next(seed / 5));
                let case = Case { number, of_x, of_z, of_y: next(0), odd: seed % 2 == 1, ..CASE };
                seed += 1;
                if !case.fields(seed).compare(double, 3, seed) {
                    return;
                }
            }
        }
    }
}

#[test]
fn lattices_slabs_and_columns_may_be_of_any_kind() {
    let formats = [SiteFormat::Half, SiteFormat::Fp64, SiteFormat::Int30, SiteFormat::Fp32];
    let mut seed = 50;
    for (extents, slab, at_once) in [
        ([4, 4, 4, 4], 4, 1),
        ([6, 4, 6, 4], 1, 1),
        ([16, 4, 4, 6], 4, 2),
        ([20, 6, 4, 4], 2, 1),
        ([4, 4, 4, 66], 1, 66),
        ([4, 4, 4, 134], 2, 67),
    ] {
        for (groups, columns) in [(1, 1), (2, 3), (2, 8)] {
            for odd in [false, true] {
                seed += 1;
                let format = formats[seed as usize % 4];
                let (of_x, of_y, of_z) = (format, format, odd.then_some(format));
                let number = MatrixNumber::ALL[seed as usize % 5];
                let case = Case { extents, slab, odd, groups, number, columns, of_x, of_z, of_y };
                if !case.fields(seed).compare(seed % 3 == 0, at_once, seed) {
                    return;
                }
            }
        }
    }
}

#[test]
fn a_product_that_is_not_wanted_changes_nothing() {
    let fields = Case { slab: 8, ..CASE }.fields(1);
    let at =
        |words: &mut [f64]| (Address(words.as_mut_ptr().expose_provenance() as u64), 8 * words.len() as u64);
    let (mut x, mut links) = (fields.x.clone(), fields.links.clone());
    for state in [1.0, 0.0] {
        let (mut y, mut done) = (vec![7.0; x.len()], [state]);
        let task = Staggered {
            extents: CASE.extents,
            slab: 8,
            slices: 0..8,
            odd: false,
            groups: &fields.groups,
            double: true,
            columns: 1,
            factor: 1.0,
            diagonal: 0.0,
        };
        let (x, links, of_y) = ([at(&mut x)], [at(&mut links)], [at(&mut y)]);
        let [x, of_y] = [&x, &of_y].map(|at| SlabsAt { format: SiteFormat::Fp64, at });
        let done = Some(at(&mut done).0);
        if !run_all(&dslash(&task, (&[0], x), &links, None, of_y, done).unwrap(), 1) {
            return;
        }
        assert_eq!(y.iter().all(|y| *y == 7.0), state != 0.0);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let group = |reals| Group::new(MatrixFormat { number: MatrixNumber::Fixed16, reals }, 8, 1.0, 1.0);
    let groups = [group(MatrixReals::All)];
    let task = Staggered {
        extents: [4, 4, 4, 8],
        slab: 4,
        slices: 0..4,
        odd: true,
        groups: &groups,
        double: false,
        columns: 2,
        factor: 1.0,
        diagonal: 1.0,
    };
    // Slabs of 128 sites, of 16 bytes for each column; lines of two sites have matrices for eight.
    let (vector, matrices) = (128 * 16 * 2, 64 * 8 * 8 * 36);
    let ask = |task: &Staggered<'_>, x: &[u64], links: u64, z: Option<u64>, y: u64| {
        let at = |bytes: u64| [(Address(64), bytes)];
        let x: Vec<_> = x.iter().map(|&bytes| (Address(64), bytes)).collect();
        let (links, z, y) = (at(links), z.map(at), at(y));
        let half = |at| SlabsAt { format: SiteFormat::Half, at };
        let z = z.as_ref().map(|z| half(&z[..]));
        dslash(task, (&[0, 1], half(&x)), &links, z, half(&y), None).err().map(|error| error.to_string())
    };
    let both = [vector, vector];
    assert_eq!(ask(&task, &both, matrices, Some(vector), vector), None);
    let refused = |task: &Staggered<'_>, x: &[u64], links, z, y, what: &str| {
        let error = ask(task, x, links, z, y).unwrap_or_else(|| panic!("{what}"));
        assert!(error.starts_with("zellige_dslash: ") && error.contains(what), "{what}: {error}");
    };
    refused(&task, &[vector], matrices, None, vector, "a slab of x");
    refused(&task, &[vector, vector - 1], matrices, None, vector, "a slab of x");
    refused(&task, &both, matrices - 1, None, vector, "matrices");
    refused(&task, &both, matrices, Some(vector - 1), vector, "a slab of z");
    refused(&task, &both, matrices, None, vector - 1, "a slab of y");
    for (other, what) in [
        (Staggered { slices: 2..8, ..task.clone() }, "whole slabs"),
        (Staggered { slices: 0..6, ..task.clone() }, "whole slabs"),
        (Staggered { slices: 4..12, ..task.clone() }, "a slice"),
        (Staggered { slices: 4..4, ..task.clone() }, "slices"),
        (Staggered { columns: 0, ..task.clone() }, "columns"),
        (Staggered { slices: 0..8, ..task.clone() }, "the number of slabs"),
        (Staggered { extents: [4, 2, 4, 8], ..task.clone() }, "an extent"),
        (Staggered { extents: [4, 1 << 20, 1 << 20, 8], ..task.clone() }, "the number of sites"),
        (Staggered { groups: &[], ..task.clone() }, "groups"),
        (Staggered { groups: &[group(MatrixReals::TwoRows)], ..task.clone() }, "groups"),
    ] {
        refused(&other, &both, matrices, None, vector, what);
    }
}
