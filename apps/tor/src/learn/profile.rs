//! Learnt profiles as parameter files.

use crate::Error;
use crate::params::{self, Mode};
use crate::system::{Atmosphere, airmass};
use std::fmt::Write;
use std::path::Path;

/// Returns a table `[atmosphere]` with the profile at the zenith; that of `atmosphere` is along a
/// line of sight at `zenith_angle` degrees.
pub fn profile_toml(atmosphere: &Atmosphere, zenith_angle: f64) -> String {
    let airmass = airmass(zenith_angle);
    let list = |of: &dyn Fn(usize) -> f64| {
        let values: Vec<String> = (0..atmosphere.layers.len()).map(|l| format!("{:?}", of(l))).collect();
        values.join(", ")
    };
    let winds = atmosphere.winds();
    let mut out = String::from("[atmosphere]             # learnt from slopes\n");
    for (key, unit, values) in [
        ("cn2", "m^(-5/3)", list(&|l| atmosphere.layers[l].cn2 / airmass)),
        ("altitude", "m", list(&|l| atmosphere.layers[l].altitude / airmass)),
        ("outer_scale", "m", list(&|l| atmosphere.layers[l].outer_scale)),
        ("wind_speed", "m/s", list(&|l| winds[l][0].hypot(winds[l][1]))),
        ("wind_direction", "degrees from x to y", list(&|l| winds[l][1].atan2(winds[l][0]).to_degrees())),
    ] {
        // A string takes everything.
        let _ = writeln!(out, "{key} = [{values}]   # {unit}");
    }
    out
}

/// Returns the text of a system in TOML with its table `[atmosphere]` replaced.
///
/// # Errors
/// A system that cannot be read then, because its atmosphere is not a table with a line of its own.
pub fn with_profile(
    path: &Path,
    system: &str,
    atmosphere: &Atmosphere,
    zenith_angle: f64,
) -> Result<String, Error> {
    let mut is_old = false;
    let mut out = String::new();
    for line in system.lines() {
        let name = line.trim_start().trim_start_matches('[');
        // Rows of numbers begin with a bracket, too.
        let is_header = line.trim_start() != name && name.starts_with(char::is_alphabetic);
        if is_header {
            is_old = line.trim_start().starts_with("[atmosphere]");
        }
        if !is_old {
            out.push_str(line);
            out.push('\n');
        }
    }
    out.push('\n');
    out.push_str(&profile_toml(atmosphere, zenith_angle));
    params::parse(path, &out, None, Mode::Lenient)?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::Layer;

    #[test]
    fn the_profile_of_a_file_is_replaced() {
        let text = params::EXAMPLE.replace("obstruction = 0.14", "zenith_angle = 60.0");
        let path = Path::new("s.toml");
        let before = params::parse(path, &text, None, Mode::Strict).unwrap();
        let layer = |k: f64| Layer {
            altitude: 800.0 * k,
            cn2: 3.0 * k,
            outer_scale: 20.0,
            wind: Some([k, -2.0 * k]),
        };
        let learnt = Atmosphere { layers: vec![layer(1.0), layer(2.5)] };
        let changed = with_profile(path, &text, &learnt, 60.0).unwrap();
        let after = params::parse(path, &changed, None, Mode::Strict).unwrap();
        assert_eq!(after.system, before.system);
        assert_eq!(after.atmosphere.layers.len(), 2);
        for (a, b) in after.atmosphere.layers.iter().zip(&learnt.layers) {
            let near = |x: f64, y: f64| (x - y).abs() < 1e-9 * y.abs();
            assert!(near(a.altitude, b.altitude) && near(a.cn2, b.cn2), "{a:?}");
            let ([vx, vy], [wx, wy]) = (a.wind.unwrap(), b.wind.unwrap());
            assert!(near(vx, wx) && near(vy, wy) && a.outer_scale == 20.0, "{a:?}");
        }
        assert!(changed.contains("# an 8 m") || changed.contains("An 8 m telescope"));
        let inline = "atmosphere = {cn2 = [1.0], altitude = [0.0], outer_scale = 25.0}\n".to_owned();
        let cut = text.find("[atmosphere]").unwrap();
        assert!(with_profile(path, &(inline + &text[..cut]), &learnt, 0.0).is_err());
    }
}
