//! Sites of a periodic lattice in four dimensions.

use std::ops::Range;

use zellige_krylov::Space;

use crate::error::Error;

/// Number of directions: x, y, z, t.
pub const DIRECTIONS: usize = 4;
/// Index of the time direction.
pub const T: usize = 3;

/// Number of colours of a quark.
pub const COLOURS: usize = 3;
/// Number of spins of a Wilson quark.
pub const SPINS: usize = 4;

/// Minimum bytes of a slab, so that a task takes much longer than its overhead.
const LEAST_BYTES: usize = 3 << 18;
/// Bytes of the operator for each site of one parity: 16 links in float64.
const BYTES_PER_SITE: usize = 16 * COLOURS * COLOURS * 16;

/// Parity of a site: whether `x + y + z + t` is even or odd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parity {
    /// Even.
    Even,
    /// Odd.
    Odd,
}

impl Parity {
    /// Both parities, in the order of sites.
    pub const BOTH: [Parity; 2] = [Parity::Even, Parity::Odd];

    /// Returns the opposite parity.
    #[must_use]
    pub fn other(self) -> Parity {
        if self == Parity::Even { Parity::Odd } else { Parity::Even }
    }

    /// Returns the parity of a sum of coordinates.
    pub fn of(sum: usize) -> Parity {
        Parity::BOTH[sum % 2]
    }
}

/// A lattice with even extents of at least 4.
///
/// Sites of even parity come first. Within a parity `t` varies most slowly, then `z`, `y`, and `x`
/// fastest. Each time slice is a contiguous range for each parity, and a site and its neighbour in
/// time have the same index in their slices.
///
/// ```
/// use zellige_lqcd::Geometry;
///
/// let lattice = Geometry::new([4, 6, 8, 4])?;
/// let site = lattice.site([1, 2, 3, 0]);
/// assert_eq!(lattice.coordinates(lattice.neighbour(site, 3, -1)), [1, 2, 3, 3]);
/// # Ok::<(), zellige_lqcd::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    extents: [usize; DIRECTIONS],
}

impl Geometry {
    /// Makes a lattice with these extents in x, y, z and t.
    ///
    /// # Errors
    /// [`Error::Parameter`] unless all extents are even and at least 4, and sites have 32-bit
    /// numbers.
    pub fn new(extents: [usize; DIRECTIONS]) -> Result<Geometry, Error> {
        let named = || extents.map(|extent| extent.to_string()).join(" x ");
        if extents.iter().any(|&extent| extent < 4 || extent % 2 != 0) {
            let problem = format!("{} sites: each extent has to be even and at least 4", named());
            return Err(Error::parameter("lattice", problem));
        }
        let sites = extents.iter().try_fold(1, |sites: usize, &extent| sites.checked_mul(extent));
        match sites {
            // Twelve numbers for each site of a parity also have 32-bit indices.
            Some(sites) if sites <= 1 << 29 => Ok(Geometry { extents }),
            _ => Err(Error::parameter("lattice", format!("{} sites: 2^29 at most", named()))),
        }
    }

    /// Returns the extents in x, y, z and t.
    pub fn extents(&self) -> [usize; DIRECTIONS] {
        self.extents
    }

    /// Returns the number of sites.
    pub fn sites(&self) -> usize {
        self.extents.iter().product()
    }

    /// Returns the number of sites of a parity.
    pub fn half(&self) -> usize {
        self.sites() / 2
    }

    /// Returns the number of sites of a parity in a line along x.
    pub fn line(&self) -> usize {
        self.extents[0] / 2
    }

    /// Returns the number of sites of a parity in a time slice.
    pub fn slice(&self) -> usize {
        self.half() / self.extents[T]
    }

    /// Returns the site with these coordinates.
    pub fn site(&self, [x, y, z, t]: [usize; DIRECTIONS]) -> u32 {
        let [nx, ny, nz, _] = self.extents;
        let odd = (x + y + z + t) % 2;
        (odd * self.half() + (((t * nz + z) * ny + y) * nx + x) / 2) as u32
    }

    /// Returns the coordinates of a site.
    pub fn coordinates(&self, site: u32) -> [usize; DIRECTIONS] {
        let [nx, ny, nz, _] = self.extents;
        let (odd, within) = (site as usize / self.half(), site as usize % self.half());
        let line = within / (nx / 2);
        let (y, z, t) = (line % ny, line / ny % nz, line / (ny * nz));
        let x = 2 * (within % (nx / 2)) + (odd + y + z + t) % 2;
        [x, y, z, t]
    }

    /// Returns the parity of a site.
    pub fn parity(&self, site: u32) -> Parity {
        Parity::BOTH[site as usize / self.half()]
    }

    /// Returns the sites of a parity.
    pub fn sites_of(&self, parity: Parity) -> Range<u32> {
        let half = self.half() as u32;
        match parity {
            Parity::Even => 0..half,
            Parity::Odd => half..2 * half,
        }
    }

    /// Returns the site that is `hops` hops away in a direction, with periodic boundaries.
    pub fn neighbour(&self, site: u32, direction: usize, hops: isize) -> u32 {
        let mut at = self.coordinates(site);
        let extent = self.extents[direction] as isize;
        at[direction] = (at[direction] as isize + hops).rem_euclid(extent) as usize;
        self.site(at)
    }

    /// Returns the number of time slices of a slab, except the last one.
    pub fn slab(&self) -> usize {
        LEAST_BYTES.div_ceil(self.slice() * BYTES_PER_SITE).min(self.extents[T])
    }

    /// Returns the time slices of each slab, the unit of work of a task. They depend on the lattice
    /// alone, so that sums have the same bits on any number of workers.
    pub fn slabs(&self) -> impl ExactSizeIterator<Item = Range<usize>> + use<> {
        let (slab, nt) = (self.slab(), self.extents[T]);
        (0..nt.div_ceil(slab)).map(move |i| i * slab..((i + 1) * slab).min(nt))
    }

    /// Returns the space of quark fields on the sites of one parity, with a part for each slab.
    /// Unknown `3 s + c` is colour `c` of the parity's site `s`.
    pub fn space(&self) -> Space {
        self.space_of(1)
    }

    /// Returns the space of fields of `spins` spins on the sites of one parity, with a part for
    /// each slab. Unknown `3 (spins s + k) + c` is colour `c` of spin `k` of the parity's site `s`.
    pub(crate) fn space_of(&self, spins: usize) -> Space {
        let of_site = spins * COLOURS;
        let starts: Vec<usize> = self.slabs().map(|slab| slab.start * self.slice() * of_site).collect();
        let space = Space::cut_at(&starts, self.half() * of_site).and_then(|space| space.grouped(COLOURS));
        space.expect("slabs have sites, and the first begins at 0")
    }
}

/// Table of the next site in each direction, forwards and backwards. A lookup is faster than the
/// computation.
#[derive(Clone, Debug)]
pub struct Neighbours {
    sites: usize,
    /// Next sites as `[direction][site]`.
    forward: Vec<u32>,
    backward: Vec<u32>,
}

impl Neighbours {
    /// Builds the table of a lattice.
    pub fn new(geometry: Geometry) -> Neighbours {
        let sites = geometry.sites();
        let towards = |hops| {
            let of = |direction| (0..sites as u32).map(move |site| geometry.neighbour(site, direction, hops));
            (0..DIRECTIONS).flat_map(of).collect()
        };
        Neighbours { sites, forward: towards(1), backward: towards(-1) }
    }

    /// Returns the next site forwards.
    pub fn forward(&self, site: u32, direction: usize) -> u32 {
        self.forward[direction * self.sites + site as usize]
    }

    /// Returns the next site backwards.
    pub fn backward(&self, site: u32, direction: usize) -> u32 {
        self.backward[direction * self.sites + site as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_and_coordinates_are_inverse() -> Result<(), Error> {
        let lattice = Geometry::new([4, 6, 8, 10])?;
        for site in 0..lattice.sites() as u32 {
            let at = lattice.coordinates(site);
            assert_eq!(lattice.site(at), site);
            assert_eq!(lattice.parity(site), Parity::of(at.iter().sum()));
            assert!(lattice.sites_of(lattice.parity(site)).contains(&site));
            for direction in 0..DIRECTIONS {
                let next = lattice.neighbour(site, direction, 1);
                assert_ne!(lattice.parity(next), lattice.parity(site));
                assert_eq!(lattice.neighbour(next, direction, -1), site);
                let third = lattice.neighbour(site, direction, 3);
                assert_eq!(lattice.neighbour(third, direction, -3), site);
                assert_eq!(lattice.neighbour(lattice.neighbour(next, direction, 1), direction, 1), third);
            }
            // A hop in time changes only the slice.
            let (half, slice) = (lattice.half(), lattice.slice());
            let later = lattice.neighbour(site, T, 1) as usize % half;
            assert_eq!(later % slice, site as usize % half % slice);
        }
        Ok(())
    }

    #[test]
    fn x_is_fastest() -> Result<(), Error> {
        let lattice = Geometry::new([4, 4, 4, 4])?;
        let first: Vec<_> = (0..4).map(|site| lattice.coordinates(site)).collect();
        assert_eq!(first, [[0, 0, 0, 0], [2, 0, 0, 0], [1, 1, 0, 0], [3, 1, 0, 0]]);
        Ok(())
    }

    #[test]
    fn three_hops_around_four_sites_are_one_back() -> Result<(), Error> {
        let lattice = Geometry::new([4, 4, 4, 8])?;
        assert_eq!(lattice.neighbour(5, 0, 3), lattice.neighbour(5, 0, -1));
        assert_ne!(lattice.neighbour(5, T, 3), lattice.neighbour(5, T, -1));
        Ok(())
    }

    #[test]
    fn slabs_cover_all_slices() -> Result<(), Error> {
        for extents in [[4, 4, 4, 4], [8, 8, 8, 8], [32, 32, 32, 64], [6, 10, 4, 14]] {
            let lattice = Geometry::new(extents)?;
            let slabs: Vec<_> = lattice.slabs().collect();
            assert_eq!(
                slabs.iter().flat_map(Clone::clone).collect::<Vec<_>>(),
                Vec::from_iter(0..extents[T])
            );
            assert_eq!(lattice.space().parts(), slabs.len());
            assert_eq!(lattice.space().len(), lattice.half() * 3);
        }
        Ok(())
    }

    #[test]
    fn odd_and_small_extents_are_refused() {
        for extents in [[2, 4, 4, 4], [4, 5, 4, 4], [0, 4, 4, 4], [1 << 20, 1 << 20, 1 << 20, 1 << 20]] {
            let error = Geometry::new(extents).expect_err("no lattice");
            assert!(error.to_string().starts_with("lattice: "), "{error}");
        }
    }
}
