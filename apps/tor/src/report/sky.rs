//! Charts of the stars on the sky, and of the sub-apertures in the pupil.

use crate::geometry::Geometry;
use crate::system::{StarKind, System};
use zellige_app::svg::{Chart, Scale};

/// Draws guide stars and targets on the sky, in arcsec.
pub(super) fn sky(system: &System) -> String {
    let all = system.stars.iter().map(|s| s.direction).chain(system.targets.iter().copied());
    let reach = all.map(|d| d[0].hypot(d[1])).fold(1.0, f64::max) * 1.25;
    let mut chart = Chart::new(340.0, 360.0, [18.0, 14.0, 42.0, 46.0], "guide stars and targets on the sky");
    let x = Scale::linear(-reach, reach, chart.left, chart.right);
    let y = Scale::linear(-reach, reach, chart.bottom, chart.top);
    chart.y_axis(&y, "y (arcsec)");
    chart.x_axis(&x, "x (arcsec)", true);
    for star in &system.stars {
        let (cx, cy) = (x.at(star.direction[0]), y.at(star.direction[1]));
        let (name, class) = match star.kind {
            StarKind::Lgs => ("laser guide star", "lgs"),
            StarKind::Ngs => ("natural guide star", "ngs"),
        };
        let [sx, sy] = star.direction;
        chart.put(format_args!(
            r#"<circle cx="{cx:.1}" cy="{cy:.1}" r="6" class="{class}"><title>{name} at ({sx}, {sy}) arcsec, {} sub-apertures across</title></circle>"#,
            star.nssp
        ));
    }
    // Thousands of crosses would overlap, so only the first ones are drawn.
    for [tx, ty] in system.targets.iter().take(400) {
        let (cx, cy) = (x.at(*tx), y.at(*ty));
        chart.put(format_args!(
            r#"<path d="M{:.1} {cy:.1}h12M{cx:.1} {:.1}v12" class="target"><title>target ({tx}, {ty}) arcsec</title></path>"#,
            cx - 6.0,
            cy - 6.0
        ));
    }
    chart.finish()
}

/// Draws the truth sensor's sub-apertures in the pupil.
pub(super) fn pupil(system: &System, geometry: &Geometry) -> String {
    let truth = geometry.truth();
    let half = system.diameter / 2.0;
    let mut chart =
        Chart::new(340.0, 360.0, [18.0, 14.0, 42.0, 46.0], "sub-apertures of the truth sensor in the pupil");
    let x = Scale::linear(-half * 1.05, half * 1.05, chart.left, chart.right);
    let y = Scale::linear(-half * 1.05, half * 1.05, chart.bottom, chart.top);
    chart.y_axis(&y, "y (m)");
    chart.x_axis(&x, "x (m)", false);
    let side = (x.at(truth.pitch) - x.at(0.0)) * 0.9;
    for i in 0..truth.len() {
        let [cx, cy] = truth.centre(i);
        chart.put(format_args!(
            r#"<rect x="{:.2}" y="{:.2}" width="{side:.2}" height="{side:.2}" class="cell"/>"#,
            x.at(cx) - side / 2.0,
            y.at(cy) - side / 2.0
        ));
    }
    let (cx, cy) = (x.at(0.0), y.at(0.0));
    for radius in [half, half * system.obstruction] {
        chart.put(format_args!(
            r#"<circle cx="{cx:.1}" cy="{cy:.1}" r="{:.1}" class="edge"/>"#,
            x.at(radius) - cx
        ));
    }
    chart.finish()
}
