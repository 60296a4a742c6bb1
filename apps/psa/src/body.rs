//! Pieces of germanium with contacts on them.

use std::fmt::Debug;

/// A point or a vector: x, y, z.
pub type Vec3 = [f64; 3];

/// A piece of germanium: where it is, and what its surface is covered with.
///
/// Its surface is metal, each place of it one of the contacts, but for faces of its bounding box
/// that *reflect*: there no field leaves it, as at a bare face that carries no charge.
pub trait Body: Debug + Send + Sync {
    /// The box that it fits in: from and to (mm) along x, y and z.
    fn bounds(&self) -> [[f64; 2]; 3];

    /// Which faces of that box reflect.
    fn reflects(&self) -> [[bool; 2]; 3];

    /// Whether a point (mm) is in the germanium: not if it lies on a contact, but if it lies on a
    /// reflecting face.
    fn contains(&self, point: Vec3) -> bool;

    /// How many contacts it has.
    fn contacts(&self) -> usize;

    /// The number of the contact at a place of the surface (mm), or of the one that is closest to
    /// it.
    fn contact(&self, place: Vec3) -> usize;
}

/// The point at `from + share (to - from)`.
pub fn between(from: Vec3, to: Vec3, share: f64) -> Vec3 {
    std::array::from_fn(|axis| from[axis] + share * (to[axis] - from[axis]))
}

/// How far two points are from each other.
pub fn distance(from: Vec3, to: Vec3) -> f64 {
    (0..3).map(|axis| (to[axis] - from[axis]).powi(2)).sum::<f64>().sqrt()
}

/// The share of the way from `inside` to `outside` at which the germanium ends, to `2^-40` of the
/// way.
///
/// What leaves the germanium and comes back on the way is not noticed.
pub fn crossing(body: &dyn Body, inside: Vec3, outside: Vec3) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..40 {
        let middle = 0.5 * (low + high);
        if body.contains(between(inside, outside, middle)) { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}
