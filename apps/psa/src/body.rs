//! Pieces of germanium with contacts on them.

use std::fmt::Debug;

/// A point or a vector: x, y, z.
pub type Vec3 = [f64; 3];

/// A piece of germanium: its shape and the contacts on its surface.
///
/// The surface is metal, and each point of it belongs to one of the contacts. The exceptions are
/// faces of the bounding box that *reflect*: no field leaves the germanium there, as at a bare face
/// that carries no charge.
pub trait Body: Debug + Send + Sync {
    /// Returns the bounding box: lower and upper end (mm) along x, y and z.
    fn bounds(&self) -> [[f64; 2]; 3];

    /// Returns the faces of the bounding box that reflect: lower and upper face along each axis.
    fn reflects(&self) -> [[bool; 2]; 3];

    /// Returns whether a point (mm) lies in the germanium. A point on a contact does not; a point
    /// on a reflecting face does.
    fn contains(&self, point: Vec3) -> bool;

    /// Returns the number of contacts.
    fn contacts(&self) -> usize;

    /// Returns the number of the contact at a point of the surface (mm); for other points, of the
    /// nearest contact.
    fn contact(&self, place: Vec3) -> usize;
}

/// Returns the point at `from + share (to - from)`.
pub fn between(from: Vec3, to: Vec3, share: f64) -> Vec3 {
    std::array::from_fn(|axis| from[axis] + share * (to[axis] - from[axis]))
}

/// Returns the distance of two points.
pub fn distance(from: Vec3, to: Vec3) -> f64 {
    (0..3).map(|axis| (to[axis] - from[axis]).powi(2)).sum::<f64>().sqrt()
}

/// Returns the fraction of the line from `inside` to `outside` at which the germanium ends, to
/// `2^-40` of its length.
///
/// The bisection assumes that the line leaves the germanium once: it does not notice a part that
/// leaves and returns.
pub fn crossing(body: &dyn Body, inside: Vec3, outside: Vec3) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..40 {
        let middle = 0.5 * (low + high);
        if body.contains(between(inside, outside, middle)) { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}
