//! List of the figures and tables that are repeated.

use self::Paper::{Lattice, Thesis, Tomography};
use super::found::Found;
use super::thesis::{chapter1, formats, matrices, products, pulses, solvers, theory};
use super::{Context, lattice, tomography};

/// A paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paper {
    /// Molina, thesis 2024.
    Thesis,
    /// Clark et al., Lattice 2022.
    Lattice,
    /// Doucet et al., IA3 2019.
    Tomography,
}

impl Paper {
    /// Returns the word of the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Paper::Thesis => "thesis",
            Paper::Lattice => "lattice",
            Paper::Tomography => "tomography",
        }
    }

    /// Returns author, title and year.
    pub const fn title(self) -> &'static str {
        match self {
            Paper::Thesis => "R. Molina, Mixed precision for High Performance Computing (thesis, 2024)",
            Paper::Lattice => "M. A. Clark et al., Maximizing the Bang Per Bit (Lattice 2022)",
            Paper::Tomography => {
                "N. Doucet et al., Mixed-Precision Tomographic Reconstructor Computations (2019)"
            }
        }
    }
}

/// A figure, a table, or a section with numbers.
pub struct Item {
    /// Paper.
    pub paper: Paper,
    /// Word of the command line.
    pub name: &'static str,
    /// Place in the paper.
    pub place: &'static str,
    /// Contents.
    pub title: &'static str,
    /// Machine, data and sizes of the published numbers.
    pub setting: &'static str,
    /// Titles of the axes.
    pub axes: [&'static str; 2],
    /// Function that computes the numbers.
    pub compute: fn(&Context<'_>) -> anyhow::Result<Found>,
}

const fn item(
    paper: Paper,
    name: &'static str,
    place: &'static str,
    title: &'static str,
    setting: &'static str,
    axes: [&'static str; 2],
    compute: fn(&Context<'_>) -> anyhow::Result<Found>,
) -> Item {
    Item { paper, name, place, title, setting, axes, compute }
}

const NUMBERS: &str = "numbers of the text";
const OLYMPE: &str = "32 matrices of SuiteSparse and of industry, 18 threads of two Skylake 6140";
const JEAN_ZAY: &str = "seven matrices of SuiteSparse, 40 threads of two Cascade Lake 6248";
const AGATA: &str = "measured events of one AGATA crystal, p = 0.3";
const HISQ: &str = "HISQ operator, 36^3 x 72 sites, beta 6.3, mass 0.001, one configuration; GPUs";
const GPUS: &str = "four P100 or four V100, StarPU and Chameleon";
const NONE: [&str; 2] = ["", ""];
const BYTES: [&str; 2] = ["matrix", "% of FP64"];
const RESIDUALS: [&str; 2] = ["step", "relative residual"];

/// All items, paper by paper, in the order of the papers.
pub const ALL: &[Item] = &[
    item(
        Thesis,
        "fig1.1",
        "1.1.6",
        "harmonic sum in FP32, from either end",
        NUMBERS,
        NONE,
        chapter1::harmonic,
    ),
    item(
        Thesis,
        "fig1.2",
        "1.1.6",
        "cancellation in a difference of squares",
        NUMBERS,
        NONE,
        chapter1::squares,
    ),
    item(Thesis, "fig1.3", "1.2", "formats of IEEE 754-1985", NUMBERS, NONE, formats::ieee),
    item(Thesis, "fig1.4", "1.2", "numbers as FP32 stores them", NUMBERS, NONE, chapter1::fields),
    item(Thesis, "fig1.5", "1.3", "later formats", NUMBERS, NONE, formats::later),
    item(Thesis, "section1.4.6", "1.4.6", "Rump's polynomial", NUMBERS, NONE, chapter1::rump),
    item(
        Thesis,
        "section1.5.1",
        "1.5.1",
        "interval arithmetic",
        "a section without numbers",
        NONE,
        chapter1::intervals,
    ),
    item(
        Thesis,
        "section1.5.5",
        "1.5.5",
        "continuous stochastic arithmetic",
        "a section without numbers",
        NONE,
        chapter1::continuous,
    ),
    item(
        Thesis,
        "section1.5.7",
        "1.5.7",
        "Monte Carlo arithmetic",
        "a section without numbers",
        ["virtual bits", "exact digits"],
        chapter1::monte_carlo,
    ),
    item(
        Thesis,
        "fig1.6",
        "1.7.3",
        "bits of a small summand that are lost",
        NUMBERS,
        ["bits of b that are kept", "% of sums unchanged"],
        chapter1::lost_bits,
    ),
    item(
        Thesis,
        "section2.3.2",
        "2.3.2",
        "entries by absolute magnitude",
        "work of others",
        NONE,
        matrices::absolute,
    ),
    item(Thesis, "table3.1", "3.4.1", "formats of the adaptive product", NUMBERS, NONE, formats::adaptive),
    item(
        Thesis,
        "table3.2",
        "3.4.2",
        "matrices, and generated ones in their place",
        NUMBERS,
        NONE,
        matrices::of_chapter3,
    ),
    item(
        Thesis,
        "theorem1",
        "3.3",
        "error bound of Algorithm 4, with sums in each bucket's precision",
        "a theorem",
        NONE,
        theory::theorem,
    ),
    item(
        Thesis,
        "remark3.3",
        "3.3",
        "inner products and sums in adaptive precision",
        "a remark",
        NONE,
        theory::inner_products,
    ),
    item(
        Thesis,
        "fig3.1",
        "3.3",
        "magnitudes of nonzeros and the limits of buckets",
        NUMBERS,
        ["log2 |a| / |A|", "nonzeros"],
        products::buckets,
    ),
    item(
        Thesis,
        "fig3.2",
        "3.4.3",
        "backward errors with two, three and seven formats",
        OLYMPE,
        BYTES,
        products::errors,
    ),
    item(
        Thesis,
        "fig3.3",
        "3.4.3",
        "bytes with two, three and seven formats",
        OLYMPE,
        BYTES,
        products::storage,
    ),
    item(Thesis, "fig3.4", "3.4.3", "time of a product at 2^-24 and 2^-53", OLYMPE, BYTES, products::times),
    item(Thesis, "fig3.5", "3.4.3", "time of a product at 2^-37", OLYMPE, BYTES, products::times_between),
    item(
        Thesis,
        "fig3.6",
        "3.4.4",
        "dropping and low precision, separately and together",
        OLYMPE,
        BYTES,
        products::dropping,
    ),
    item(
        Thesis,
        "fig3.7",
        "3.4.5",
        "scaling with the number of threads",
        "Cube_Coup_dt0, 1 to 36 threads",
        ["threads", "efficiency"],
        products::scaling,
    ),
    item(
        Thesis,
        "fig3.8",
        "3.5.3",
        "GMRES-IR with uniform and with adaptive products",
        "ML_Laplace",
        RESIDUALS,
        solvers::targets,
    ),
    item(
        Thesis,
        "fig3.9",
        "3.5.3",
        "GMRES-IR with both criteria",
        "CoupCons3D",
        RESIDUALS,
        solvers::criteria,
    ),
    item(
        Thesis,
        "fig3.10",
        "3.5.3",
        "a matrix that the normwise criterion makes easier",
        "Geo_1438",
        RESIDUALS,
        solvers::easier,
    ),
    item(
        Thesis,
        "table3.3",
        "3.5.4",
        "four Krylov methods with three kinds of products",
        OLYMPE,
        NONE,
        solvers::methods,
    ),
    item(Thesis, "table3.4", "3.5.4", "GMRES with three kinds of products", OLYMPE, NONE, solvers::restarts),
    item(Thesis, "table4.1", "4.2.2", "formats with reduced precision", NUMBERS, NONE, formats::reduced),
    item(
        Thesis,
        "table4.2",
        "4.2.4",
        "formats with reduced precision and exponent",
        NUMBERS,
        NONE,
        formats::reduced_exponent,
    ),
    item(Thesis, "table4.3", "4.2.4", "the same without a sign", NUMBERS, NONE, formats::unsigned),
    item(
        Thesis,
        "section4.2.4",
        "4.2.4",
        "bits of exponent of any list of formats",
        NUMBERS,
        NONE,
        matrices::own_sets,
    ),
    item(
        Thesis,
        "table4.4",
        "4.3",
        "matrices, and generated ones in their place",
        NUMBERS,
        NONE,
        matrices::of_chapter4,
    ),
    item(
        Thesis,
        "fig4.4",
        "4.3",
        "backward errors of uniform and adaptive products",
        JEAN_ZAY,
        ["log2 of the target", "normwise backward error"],
        products::uniform_errors,
    ),
    item(
        Thesis,
        "fig4.5",
        "4.3.1",
        "bytes and time of AP2, AP4 and AP7",
        JEAN_ZAY,
        BYTES,
        products::more_formats,
    ),
    item(
        Thesis,
        "fig4.6",
        "4.3.2",
        "bytes and time with reduced exponents",
        JEAN_ZAY,
        BYTES,
        products::fewer_exponents,
    ),
    item(Thesis, "fig4.7", "4.3.2", "shares of nonzeros by format", JEAN_ZAY, BYTES, products::shares),
    item(
        Thesis,
        "section5.2.2",
        "5.2.2",
        "profile of the full search",
        "perf, one thread",
        NONE,
        pulses::profile,
    ),
    item(
        Thesis,
        "section5.2.3",
        "5.2.3",
        "points that stochastic arithmetic changes",
        AGATA,
        NONE,
        pulses::stochastic,
    ),
    item(
        Thesis,
        "table5.1",
        "5.3",
        "searches that find the point of the full one",
        AGATA,
        NONE,
        pulses::same_points,
    ),
    item(Thesis, "section5.3.2", "5.3.2", "share of the coarse stage", AGATA, NONE, pulses::coarse_share),
    item(
        Thesis,
        "fig5.1",
        "5.3.3",
        "distances of points that differ",
        AGATA,
        ["mm", "events"],
        pulses::distances,
    ),
    item(Thesis, "fig5.2", "5.3.3", "energies of points that differ", AGATA, NONE, pulses::energies),
    item(Thesis, "table5.2", "5.4", "time of a search", "ticks; i9-11950H, one thread", NONE, pulses::times),
    item(
        Thesis,
        "table5.3",
        "5.4",
        "points within 5 mm of those of the full search",
        AGATA,
        NONE,
        pulses::near_points,
    ),
    item(Lattice, "table1", "2", "IEEE formats", NUMBERS, NONE, lattice::ieee),
    item(
        Lattice,
        "fig1",
        "3.1",
        "CG in double, and in half with and without stabilisation",
        "staggered operator, 16^4 sites, beta 5.6, mass 0.001",
        RESIDUALS,
        lattice::stabilised,
    ),
    item(
        Lattice,
        "section3.3",
        "3.3",
        "limits of a format for ill-conditioned systems",
        "a statement without numbers",
        ["-log10 of the mass", "iterations"],
        lattice::conditions,
    ),
    item(
        Lattice,
        "fig2",
        "5.2",
        "deviations of the operator in five formats",
        HISQ,
        ["deviation", "% of numbers"],
        lattice::deviations,
    ),
    item(
        Lattice,
        "fig3",
        "5.3",
        "rate of the operator in five formats",
        "HISQ operator, 32^4 sites, Quadro GV100",
        NONE,
        lattice::rates,
    ),
    item(
        Lattice,
        "fig4",
        "6.1",
        "residuals of BiCGStab(4) in five formats",
        HISQ,
        RESIDUALS,
        lattice::bicgstab_histories,
    ),
    item(Lattice, "table2", "6.1", "iterations and times of BiCGStab(4)", HISQ, NONE, lattice::bicgstab),
    item(Lattice, "table3", "6.2", "multi-shift CG with two pairs of formats", HISQ, NONE, lattice::shifts),
    item(Tomography, "table1", "VI", "variants of a product", NUMBERS, NONE, tomography::variants),
    item(
        Tomography,
        "fig2",
        "VI",
        "eigenvalues of the covariance matrix and of its tiles",
        "13 248 measurements, eight sensors, tiles of 138",
        ["number", "eigenvalue"],
        tomography::eigenvalues,
    ),
    item(
        Tomography,
        "fig3",
        "VII",
        "precision by the distance from the diagonal",
        "a picture",
        NONE,
        tomography::zones,
    ),
    item(
        Tomography,
        "fig5",
        "VIII b",
        "Strehl ratio by mix of precisions",
        "8 m with 17k and 40 m with 50k measurements, COMPASS",
        NONE,
        tomography::strehl,
    ),
    item(
        Tomography,
        "fig6",
        "VIII c",
        "rate by number of measurements",
        GPUS,
        ["measurements", "Tflop/s"],
        tomography::rates,
    ),
    item(
        Tomography,
        "fig7",
        "VIII c",
        "rate of several mixes of precisions",
        GPUS,
        ["measurements", "Tflop/s"],
        tomography::mixes,
    ),
    item(
        Tomography,
        "fig8",
        "VIII c",
        "rate of the products of a factorisation alone",
        GPUS,
        ["measurements", "Tflop/s"],
        tomography::products,
    ),
    item(
        Tomography,
        "fig9",
        "VIII c",
        "one to four GPUs, and transfers",
        GPUS,
        ["GPUs", "s"],
        tomography::devices,
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<(&str, &str)> = ALL.iter().map(|item| (item.paper.name(), item.name)).collect();
        assert_eq!(names.len(), ALL.len());
    }
}
