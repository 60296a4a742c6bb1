//! Geometry of the germanium.

use crate::Error;
use crate::array::{Array, Placement};
use crate::body::{Body, Vec3};
use crate::crystal::Crystal;
use crate::track::germanium::{dot, minus, norm};

/// Germanium around a source.
#[derive(Clone, Debug)]
pub struct Target(Shape);

#[derive(Clone, Debug)]
enum Shape {
    Shell { inner: f64, outer: f64 },
    Crystals { places: Vec<PlacedCrystal>, crystal: Box<Crystal>, radius: f64, inner: f64, outer: f64 },
}

/// A crystal of an array.
#[derive(Clone, Copy, Debug)]
struct PlacedCrystal {
    placement: Placement,
    /// Centre of its bounding sphere.
    middle: Vec3,
}

impl Target {
    /// Creates a shell of germanium between two spheres around the origin (mm).
    ///
    /// # Errors
    /// [`Error::Parameter`] if the outer radius is not larger than the inner one, or larger than 10
    /// m.
    pub fn shell(inner: f64, outer: f64) -> Result<Target, Error> {
        if inner >= 0.0 && outer > inner && outer <= 1e4 {
            return Ok(Target(Shape::Shell { inner, outer }));
        }
        let problem =
            format!("from {inner} to {outer} mm: give two radii, the larger one last, up to 1e4 mm");
        Err(Error::Parameter { name: "shell", problem })
    }

    /// Creates crystals of one shape at the placements of an array. Overlapping regions count once.
    pub fn crystals(array: &Array, crystal: &Crystal) -> Target {
        let bounds = crystal.bounds();
        let middle = bounds.map(|[from, to]| 0.5 * (from + to));
        let radius = norm(bounds.map(|[from, to]| 0.5 * (to - from)));
        let place = |(_, placement): (usize, &Placement)| PlacedCrystal {
            placement: *placement,
            middle: placement.apply(middle),
        };
        let places: Vec<PlacedCrystal> = array.crystals().map(place).collect();
        let far = places.iter().map(|place| norm(place.middle));
        let outer = far.clone().fold(0.0, f64::max) + radius;
        let inner = (far.fold(f64::INFINITY, f64::min) - radius).max(0.0);
        Target(Shape::Crystals { places, crystal: Box::new(crystal.clone()), radius, inner, outer })
    }

    /// Returns the radii of two spheres around the origin (mm): there is no germanium inside the
    /// first or outside the second.
    pub fn radii(&self) -> [f64; 2] {
        match self.0 {
            Shape::Shell { inner, outer } | Shape::Crystals { inner, outer, .. } => [inner, outer],
        }
    }

    /// Returns whether a point (mm) is in germanium.
    pub fn contains(&self, point: Vec3) -> bool {
        match &self.0 {
            Shape::Shell { inner, outer } => (inner * inner..=outer * outer).contains(&dot(point, point)),
            Shape::Crystals { places, crystal, radius, .. } => places.iter().any(|place| {
                let from = minus(point, place.middle);
                dot(from, from) <= radius * radius && crystal.contains(place.placement.back(point))
            }),
        }
    }
}
