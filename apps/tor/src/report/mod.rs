//! Report of a run: a single page without scripts or external parts, light and dark.

mod charts;
pub mod field;
mod image;
mod loop_charts;
pub mod loops;
mod map;
pub mod rtc;
mod sky;
mod table;
mod terms;
pub mod text;
pub mod tune;

use crate::geometry::Geometry;
use crate::pipeline::{Outcome, PipelineError};
use std::fmt::Write as _;
use zellige_app::page::Page;
use zellige_app::svg::{escape, short};

/// Maximum number of targets that the report lists.
const LISTED: usize = 50;

/// Returns the page.
///
/// # Errors
/// A system whose geometry cannot be computed.
pub fn page(outcome: &Outcome) -> Result<Page, PipelineError> {
    let mut page = Page::new("Tomographic reconstructor");
    let out = page.markup();
    head(out, outcome);
    rules(out, outcome);
    strehl(out, outcome);
    maps(out, outcome);
    bits(out, outcome);
    images(out, outcome);
    xray(out, outcome);
    let geometry = Geometry::new(&outcome.input.system)?;
    places(out, outcome, &geometry);
    Ok(page)
}

fn section(out: &mut String, title: &str, words: &str) {
    let _ = writeln!(out, "<section><h2>{title}</h2><p class=\"soft\">{words}</p>");
}

fn figure(out: &mut String, picture: &str, caption: &str) {
    out.push_str(&zellige_app::page::figure(picture, caption));
}

fn head(out: &mut String, outcome: &Outcome) {
    let info = &outcome.info;
    out.push_str("<h1>Tomographic reconstructor</h1>");
    let _ = write!(
        out,
        "<p class=\"soft\">{} m telescope, {} laser and {} natural guide stars, {} turbulent layers, seeing {} arcsec \
         (r<sub>0</sub> {} m at 500 nm). One factorisation of C<sub>mm</sub> serves {} target{}.</p>",
        info.diameter,
        info.lgs,
        info.ngs,
        info.layers,
        short(info.seeing),
        short(info.r0),
        info.targets,
        if info.targets == 1 { "" } else { "s" }
    );
    let tiles = outcome.edges.len().saturating_sub(1);
    let widest = outcome.edges.windows(2).map(|e| e[1] - e[0]).max().unwrap_or(0);
    let flops = format!("{:.2}", info.total_flops / 1e9);
    out.push_str("<div class=\"facts\">");
    for (value, what) in [
        (info.measurements.to_string(), "measurements n"),
        (info.truth_slopes.to_string(), "slopes m per target"),
        (info.actuators.to_string(), "actuators"),
        (format!("{tiles} × {tiles}"), "tiles"),
        (widest.to_string(), "widest tile"),
        (flops, "Gflop per rule"),
        (outcome.workers.to_string(), "workers"),
    ] {
        let _ = write!(out, "<div><b>{value}</b><span>{what}</span></div>");
    }
    out.push_str("</div>\n");
    devices(out, outcome);
}

/// Lists the devices other than CPU workers.
fn devices(out: &mut String, outcome: &Outcome) {
    let gib = |bytes: u64| short(bytes as f64 / f64::from(1 << 30));
    let list = outcome.devices.iter().map(|d| {
        let (peak, all) = (gib(d.peak_memory_bytes), gib(d.memory_bytes));
        let failed = d.failure.as_ref().map_or(String::new(), |why| format!("; failed: {}", escape(why)));
        format!("{} ({}, {peak} of {all} GiB used{failed})", escape(&d.name), escape(&d.device))
    });
    let list: Vec<String> = list.collect();
    if !list.is_empty() {
        let _ = write!(out, "<p class=\"soft\">On {}.</p>", list.join(", "));
    }
}

fn rules(out: &mut String, outcome: &Outcome) {
    section(
        out,
        "Rules",
        "Which precision the products of tiles had, and what became of it. The backward error is that of the factor; Strehl \
         ratios are judged with the float64 covariances, whatever the rule. Rate: n³/3 + 2 n² m per target over the seconds of \
         factorisation and solve; beside it that rate's share of a single tile product's in the rule's own type, measured on \
         all workers in the same run.",
    );
    if outcome.survived() && !outcome.is_judged() {
        out.push_str("<p>Nothing was judged: backward errors and Strehl ratios were not computed.</p>");
    }
    out.push_str(&table::table(outcome));
    let refined = outcome.results.iter().filter(|r| !r.extras.residuals.is_empty());
    for result in refined {
        let list: Vec<String> = result.extras.residuals.iter().map(|&r| short(r)).collect();
        let _ = write!(
            out,
            "<p class=\"soft\">{}: relative residual before each refinement step: {}; after the last: {}</p>",
            escape(&result.rule),
            list.join(", "),
            result.extras.residual.map_or_else(String::new, short)
        );
    }
    several_targets(out, outcome);
    out.push_str("</section>\n");
}

fn several_targets(out: &mut String, outcome: &Outcome) {
    if outcome.info.targets < 2 || !outcome.is_judged() {
        return;
    }
    let survivors: Vec<_> =
        outcome.results.iter().filter_map(|r| r.measured.as_ref().map(|m| (&r.rule, m))).collect();
    out.push_str(
        "<h3>Strehl ratio by target</h3><div class=\"wide\"><table><thead><tr><th>target (arcsec)</th>",
    );
    for (rule, _) in &survivors {
        let _ = write!(out, "<th>{}</th>", escape(rule));
    }
    out.push_str("</tr></thead><tbody>");
    for (t, [x, y]) in outcome.input.system.targets.iter().enumerate().take(LISTED) {
        let _ = write!(out, "<tr><td>{}, {}</td>", short(*x), short(*y));
        for (_, m) in &survivors {
            let _ = write!(
                out,
                "<td>{}</td>",
                m.targets.get(t).map_or("–".into(), |r| format!("{:.5}", r.strehl_moao))
            );
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
    if outcome.info.targets > LISTED {
        let _ = write!(out, "<p class=\"soft\">The first {LISTED} of {} targets.</p>", outcome.info.targets);
    }
}

fn strehl(out: &mut String, outcome: &Outcome) {
    if !outcome.is_judged() {
        return;
    }
    section(
        out,
        "Strehl ratio",
        "Of the tomographic error alone: no fitting, aliasing or bandwidth error. The stationary one averages over equal \
         actuator offsets, as MOAO does; the exact one takes all pairs of pupil points.",
    );
    out.push_str("<p class=\"legend\"><span><i class=\"b-moao\"></i>stationary</span>");
    out.push_str("<span><i class=\"b-exact\"></i>exact long exposure</span></p><div class=\"row\">");
    figure(out, &charts::strehl(outcome), "First target.");
    if let Some(picture) = charts::changes(outcome) {
        figure(out, &picture, "What reduced precision costs, stationary Strehl ratio.");
    }
    out.push_str("</div></section>\n");
}

fn maps(out: &mut String, outcome: &Outcome) {
    let with_map: Vec<_> = outcome.results.iter().filter(|r| r.extras.map.tiles > 0).collect();
    if with_map.is_empty() {
        return;
    }
    section(
        out,
        "Precision maps",
        "The lower triangle of tiles. Each tile is divided in the proportions in which its products ran; point at it for the \
         numbers. Lines are where another sensor begins.",
    );
    out.push_str(&map::legend(with_map.iter().map(|result| &result.extras.map)));
    out.push_str("<div class=\"row small\">");
    for result in with_map {
        let sensors = &outcome.info.sub_apertures;
        let picture = map::map(&result.extras.map, &outcome.edges, sensors, &result.rule);
        figure(out, &picture, &format!("<code>{}</code>", escape(&result.rule)));
    }
    out.push_str("</div></section>\n");
}

/// Draws the bits of the first reconstructor of each rule, if they are not the same everywhere.
fn bits(out: &mut String, outcome: &Outcome) {
    const SIDE: usize = 340;
    let mixed = outcome.results.iter().filter_map(|result| {
        let matrix = result.extras.rounded.first()?;
        let (low, high) = (*matrix.bits().iter().min()?, *matrix.bits().iter().max()?);
        (low < high).then_some((result, matrix, low, high))
    });
    for (result, matrix, low, high) in mixed {
        section(
            out,
            "Bits of the reconstructor",
            "Of the integers in each block of 64 rows and 32 columns: commands or slopes of the truth sensor from the top, \
             measurements from the left.",
        );
        out.push_str(&image::share_ramp(&format!("{low} bits"), &format!("{high} bits")));
        let (rows, cols) = matrix.shape();
        let share = |at: usize| {
            let bits = matrix.bits_of(at / SIDE * rows / SIDE, at % SIDE * cols / SIDE);
            f64::from(bits - low) / f64::from(high - low)
        };
        let values: Vec<f64> = (0..SIDE * SIDE).map(share).collect();
        let rule = escape(&result.rule);
        let source = image::shares(SIDE, &values);
        let picture = format!("<img class=\"psf\" alt=\"bits of {rule}\" src=\"{source}\">");
        let words = format!("<code>{rule}</code>, {:.2} bits on average", matrix.mean_bits());
        out.push_str("<div class=\"row small\">");
        figure(out, &picture, &words);
        out.push_str("</div></section>\n");
    }
}

fn images(out: &mut String, outcome: &Outcome) {
    let shown: Vec<_> =
        outcome.results.iter().filter_map(|r| r.extras.images.first().map(|i| (r, i))).collect();
    if shown.is_empty() {
        return;
    }
    section(
        out,
        "Point spread functions",
        &format!(
            "Long exposure towards the first target at {} µm, on a logarithmic scale from 10<sup>−{:.0}</sup> to 1 of the \
             diffraction-limited peak.",
            short(outcome.input.system.wavelength * 1e6),
            image::DECADES
        ),
    );
    out.push_str(&image::ramp());
    let reference = outcome.reference().and_then(|result| Some((result, result.extras.images.first()?)));
    out.push_str("<div class=\"row small\">");
    for (result, psf) in shown {
        let (source, width) = image::picture(psf);
        let rule = escape(&result.rule);
        let picture = format!("<img class=\"psf\" alt=\"PSF of {rule}\" src=\"{source}\">");
        let words =
            format!("<code>{rule}</code>, Strehl ratio {:.4}, {} arcsec across", psf.strehl, short(width));
        figure(out, &picture, &words);
        let Some((base, image)) = reference.filter(|(base, _)| base.rule != result.rule) else { continue };
        let Some((source, decade)) = image::difference(psf, image) else { continue };
        let base = escape(&base.rule);
        let picture =
            format!("<img class=\"psf\" alt=\"PSF of {rule} less that of {base}\" src=\"{source}\">");
        figure(
            out,
            &picture,
            &format!("The distance from <code>{base}</code>; the brightest colour is 10<sup>{decade}</sup>"),
        );
    }
    out.push_str("</div></section>\n");
}

fn xray(out: &mut String, outcome: &Outcome) {
    let Some(xray) = &outcome.xray else {
        return;
    };
    section(
        out,
        "X-ray of the matrix",
        "Where C<sub>mm</sub> is large, before any rounding. What couples strongly needs precision; a norm that falls with the \
         distance from the diagonal speaks for a band rule, a flat one for a rule on operand norms.",
    );
    out.push_str("<div class=\"row\">");
    if let Some(picture) = charts::eigenvalues(xray) {
        figure(out, &picture, "All eigenvalues, largest first.");
    }
    if let Some(picture) = charts::norms(xray) {
        figure(out, &picture, "2-norm of each tile: median, and range from the smallest to the largest.");
    }
    if let Some((picture, distances)) = charts::spectra(xray) {
        let mut words = String::from("<span class=\"legend\">");
        for (k, d) in distances.iter().enumerate() {
            let _ = write!(words, "<span><i class=\"b-c{k}\"></i>tile ({d}, 0)</span>");
        }
        words.push_str("</span>");
        figure(out, &picture, &words);
    }
    out.push_str("</div></section>\n");
}

fn places(out: &mut String, outcome: &Outcome, geometry: &Geometry) {
    let system = &outcome.input.system;
    section(out, "Geometry", "Where the sensors look, and what the truth sensor sees of the pupil.");
    out.push_str("<p class=\"legend\"><span><i class=\"b-lgs\"></i>laser guide star</span>");
    out.push_str(
        "<span><i class=\"b-ngs\"></i>natural guide star</span><span>+ target</span></p><div class=\"row\">",
    );
    figure(out, &sky::sky(system), "On the sky.");
    let words = format!("{} valid sub-apertures, {} across.", geometry.truth().len(), system.nssp);
    figure(out, &sky::pupil(system, geometry), &words);
    out.push_str("</div></section>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::{Mode, parse};
    use crate::pipeline::{self, Options, Silent, TileChoice, Xray};
    use std::path::Path;
    use zellige_dense::Rounding;
    use zellige_runtime::Runtime;

    fn options(rules: &[&str], targets: Vec<[f64; 2]>) -> Options {
        Options {
            rules: rules.iter().map(|r| r.to_string()).collect(),
            tile: TileChoice::Uniform(32),
            targets: Some(targets),
            xray: Xray::Auto,
            ..Options::default()
        }
    }

    fn outcome(rules: &[&str], targets: Vec<[f64; 2]>) -> Outcome {
        run(&options(rules, targets))
    }

    fn run(options: &Options) -> Outcome {
        let text = include_str!("../../systems/demo.toml").replace("nssp = 16 ", "nssp = 6 ");
        let input = parse(Path::new("small.toml"), &text, None, Mode::Strict).unwrap();
        let rt = Runtime::builder().workers(2).bind(false).build().unwrap();
        pipeline::run(&rt, &input, options, &Silent).unwrap()
    }

    #[test]
    fn devices_stand_at_the_head() {
        let mut outcome = outcome(&["fp32"], vec![[0.0, 0.0]]);
        assert!(!page(&outcome).unwrap().finish().contains("GiB used"));
        let device = |name: &str, failure: Option<&str>| pipeline::DeviceUse {
            name: name.into(),
            device: "GPU 3: <H200>".into(),
            memory_bytes: 3 << 30,
            peak_memory_bytes: 3 << 29,
            failure: failure.map(String::from),
        };
        outcome.devices = vec![device("cuda 0", None), device("cuda 1", Some("it fell off the bus"))];
        let text = page(&outcome).unwrap().finish();
        for part in [
            "On cuda 0 (GPU 3: &lt;H200&gt;, 1.50 of 3.00 GiB used), cuda 1 (",
            "3.00 GiB used; failed: it fell off the bus).",
        ] {
            assert!(text.contains(part), "{part}");
        }
    }

    #[test]
    fn the_page_holds_everything_and_asks_for_nothing() {
        let outcome = outcome(&["fp64", "hp1:operand=1e-2", "bf1"], vec![[0.0, 0.0], [5.0, -5.0]]);
        let text = page(&outcome).unwrap().finish();
        for part in ["Rules", "Precision maps", "X-ray", "Point spread", "Geometry", "Strehl ratio by target"]
        {
            assert!(text.contains(part), "{part}");
        }
        for foreign in ["http:", "https:", "<script", "@import", "url("] {
            assert!(!text.contains(foreign), "{foreign}");
        }
        assert!(!text.contains("NaN") && !text.contains("inf"));
        assert_eq!(text.matches("<section>").count(), text.matches("</section>").count());
        assert_eq!(text.matches("<svg").count(), text.matches("</svg>").count());
        // Every product of the factorisation is in the map of its rule.
        let tiles = outcome.edges.len() as u32 - 1;
        let counted: u32 = outcome.results[0].extras.map.counts.iter().flatten().sum();
        assert_eq!(counted, tiles * (tiles - 1) * (tiles - 2) / 6);
    }

    #[test]
    fn a_page_without_a_judgement_says_so() {
        let mut outcome = outcome(&["fp32"], vec![[0.0, 0.0], [5.0, -5.0]]);
        let measured = outcome.results[0].measured.as_mut().unwrap();
        measured.targets.clear();
        (measured.backward_error, measured.strehl_moao) = (f64::NAN, f64::NAN);
        measured.strehl_exact = None;
        outcome.results[0].extras.images.clear();
        let text = page(&outcome).unwrap().finish();
        assert!(text.contains("were not computed") && !text.contains("NaN"));
        assert!(!text.contains("<h2>Strehl") && !text.contains("Strehl ratio by target"));
    }

    #[test]
    fn bits_are_drawn_where_they_differ() {
        let page_with = |rounding| {
            let options = Options { rounding: Some(rounding), ..options(&["fp32"], vec![[0.0, 0.0]]) };
            page(&run(&options)).unwrap().finish()
        };
        assert!(!page_with(Rounding::new(6, 32).unwrap()).contains("Bits of the reconstructor"));
        let text = page_with(Rounding::by_block(32, |block| 4 + (block.cols.start / 32 % 5) as u32));
        for part in ["Bits of the reconstructor", ">4 bits<", ">8 bits<", "alt=\"bits of fp32\""] {
            assert!(text.contains(part), "{part}");
        }
    }

    #[test]
    fn a_page_without_survivors_is_a_page() {
        let mut outcome = outcome(&["fp32"], vec![[0.0, 0.0]]);
        outcome.results[0].measured = None;
        outcome.results[0].extras = pipeline::Extras::default();
        outcome.results[0].not_spd = Some(pipeline::NotSpd { tile: 1, pivot: 2, row: 34, suggestion: None });
        outcome.xray = None;
        let text = page(&outcome).unwrap().finish();
        assert!(text.contains("not positive definite at tile 1") && !text.contains("<h2>Strehl"));
    }
}
