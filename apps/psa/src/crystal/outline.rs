//! The hexagon that a plane of constant z cuts out of a tapering crystal.

/// Six corners in the order of growing angle (mm).
pub(crate) struct Outline([[f64; 2]; 6]);

/// Returns twice the signed area of the triangle of the origin, `a` and `b`: positive if the path
/// from `a` to `b` is anticlockwise.
fn cross(a: [f64; 2], b: [f64; 2]) -> f64 {
    a[0] * b[1] - a[1] * b[0]
}

impl Outline {
    /// Interpolates the outline at the fraction `share` of the length from the front to the back
    /// face.
    pub(crate) fn between(front: &[[f64; 2]; 6], back: &[[f64; 2]; 6], share: f64) -> Outline {
        Outline(std::array::from_fn(|k| {
            [0, 1].map(|axis| front[k][axis] + share * (back[k][axis] - front[k][axis]))
        }))
    }

    /// Returns the distance of a point from the nearest side (mm), negative outside.
    pub(crate) fn depth(&self, point: [f64; 2]) -> f64 {
        let mut depth = f64::INFINITY;
        for k in 0..6 {
            let (from, to) = (self.0[k], self.0[(k + 1) % 6]);
            let side = [to[0] - from[0], to[1] - from[1]];
            let to_point = [point[0] - from[0], point[1] - from[1]];
            depth = depth.min(cross(side, to_point) / side[0].hypot(side[1]));
        }
        depth
    }

    /// Returns the corner around which a point lies: between the middles of the two sides that meet
    /// there.
    pub(crate) fn sector(&self, point: [f64; 2]) -> usize {
        // Twice the middle of the side after corner k.
        let middle = |k: usize| {
            let (a, b) = (self.0[k % 6], self.0[(k + 1) % 6]);
            [a[0] + b[0], a[1] + b[1]]
        };
        let lies = |&k: &usize| cross(middle(k + 5), point) >= 0.0 && cross(middle(k), point) < 0.0;
        // On the axis no sector contains the point.
        (0..6).find(lies).unwrap_or(0)
    }

    /// Returns whether the outline is convex, with the corners anticlockwise around the origin.
    pub(crate) fn is_sound(&self) -> bool {
        (0..6).all(|k| {
            let [a, b, c] = [0, 1, 2].map(|step| self.0[(k + step) % 6]);
            let turn = cross([b[0] - a[0], b[1] - a[1]], [c[0] - b[0], c[1] - b[1]]);
            cross(a, b) > 0.0 && turn > 0.0
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regular(radius: f64) -> [[f64; 2]; 6] {
        std::array::from_fn(|k| {
            let angle = (60.0 * k as f64).to_radians();
            [radius * angle.cos(), radius * angle.sin()]
        })
    }

    #[test]
    fn a_regular_hexagon_is_as_deep_as_its_inner_circle() {
        let outline = Outline::between(&regular(10.0), &regular(20.0), 0.5);
        assert!(outline.is_sound());
        assert!((outline.depth([0.0, 0.0]) - 15.0 * 0.75f64.sqrt()).abs() < 1e-12);
        assert!(outline.depth([15.1, 0.0]) < 0.0);
        assert_eq!(outline.sector([1.0, 0.1]), 0);
        assert_eq!(outline.sector([-1.0, 0.1]), 3);
        assert_eq!(outline.sector([0.1, -1.0]), 5);
        let turned: [[f64; 2]; 6] = std::array::from_fn(|k| regular(1.0)[5 - k]);
        assert!(!Outline(turned).is_sound());
    }
}
