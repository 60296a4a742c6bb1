//! Report page of simulated loops.

use super::{field, image, loop_charts, terms, text};
use crate::end_to_end::{LoopPictures, LoopRun, LoopTarget, Snapshot};
use crate::geometry::Geometry;
use crate::params::Input;
use crate::pipeline::PipelineError;
use std::fmt::Write;
use zellige_app::page::{Page, figure};
use zellige_app::svg::{escape, short};
use zellige_app::text::digits;

/// Maximum number of point-spread functions on a page.
const IMAGES: usize = 24;

/// Returns the page of runs and their pictures, which are in the same order.
///
/// # Errors
/// A system whose geometry cannot be computed.
pub fn page(
    title: &str,
    input: &Input,
    runs: &[LoopRun],
    pictures: &[LoopPictures],
) -> Result<Page, PipelineError> {
    let mut page = Page::new(title);
    page.heading(title);
    head(&mut page, runs);
    strehls(&mut page, runs);
    history(&mut page, runs, pictures);
    page.markup().push_str(&field::section(runs));
    psfs(&mut page, runs, pictures);
    if let Some(film) = pictures.iter().map(|p| &p.film).find(|film| !film.is_empty()) {
        residuals(&mut page, input, film)?;
    }
    budget(&mut page, runs);
    stages(&mut page, runs);
    Ok(page)
}

fn head(page: &mut Page, runs: &[LoopRun]) {
    let Some(run) = runs.iter().find(|run| run.result.is_some()) else { return };
    let Some(r) = &run.result else { return };
    let milliseconds = short(1e3 * r.frame_time);
    let seeds = run.seeds.len().max(1);
    let words = format!(
        "{} frames of {milliseconds} ms after {}, {} loop with gain {}, {} frame(s) of delay, sensors {}, {}.{}",
        r.frames,
        r.skipped,
        r.mode.name(),
        r.gain,
        r.delay,
        r.sensor.name(),
        if seeds == 1 { format!("seed {}", r.seed) } else { format!("{seeds} seeds from {}", r.seed) },
        if run.complete { "" } else { " The exposure was interrupted." },
    );
    let _ = writeln!(page.markup(), "<p class=\"soft\">{words}</p>");
    let mut facts = vec![
        ("measurements", r.measurements.to_string()),
        ("actuators", r.actuators.to_string()),
        ("pixels across the pupil", r.pixels.to_string()),
        ("frames per second", digits(run.frames_per_second)),
    ];
    if let Some(modes) = r.modes {
        facts.push(("modes under control", modes.to_string()));
    }
    page.facts(&facts);
}

fn strehls(page: &mut Page, runs: &[LoopRun]) {
    let mut markup = legend(runs);
    markup += &figure(&loop_charts::strehls(runs), "First target, first wavelength.");
    markup += "<div class=\"wide\"><table><thead><tr><th>reconstructor</th><th class=\"left\">products by precision</th>\
               <th>target (arcsec)</th><th>µm</th><th>Strehl<br>ratio</th><th>standard<br>error</th><th>nm rms</th>\
               <th>without<br>tilt</th><th>half energy<br>(arcsec)</th></tr></thead><tbody>";
    for run in runs {
        if let Some(reason) = &run.not_spd {
            let (rule, reason) = (escape(&run.reconstructor), escape(&reason.to_string()));
            let _ =
                write!(markup, "<tr><td>{rule}</td><td class=\"failed\" colspan=\"8\">{reason}</td></tr>");
        }
        for target in run.result.iter().flat_map(|result| &result.targets) {
            markup += &target_rows(run, target);
        }
    }
    markup += "</tbody></table></div>";
    page.section(
        "Strehl ratio",
        "Mean over frames of the squared modulus of the mean of exp(2πi w/λ) over the pupil, tip and tilt included. The \
         standard error is that of several seeds, or of ten parts of one exposure.",
        &markup,
    );
}

/// Returns the legend of the precisions that the bars show.
fn legend(runs: &[LoopRun]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for (name, share) in runs.iter().filter_map(|run| run.shares).flat_map(|shares| shares.list()) {
        if share > 0.0 && !names.contains(&name) {
            names.push(name);
        }
    }
    let entry = |name: &&str| format!("<span><i class=\"b-{name}\"></i>{name}</span>");
    let entries: String = names.iter().map(entry).collect();
    if entries.is_empty() { entries } else { format!("<p class=\"legend\">{entries}</p>") }
}

fn target_rows(run: &LoopRun, target: &LoopTarget) -> String {
    let mut rows = String::new();
    for (i, band) in target.bands.iter().enumerate() {
        let error = target.strehl_error.filter(|_| i == 0).map_or("–".into(), |e| format!("{e:.4}"));
        let _ = writeln!(
            rows,
            "<tr><td>{}</td><td class=\"left\">{}</td><td>{}, {}</td><td>{}</td><td>{:.4}</td><td>{error}</td><td>{:.1}</td>\
             <td>{:.1}</td><td>{}</td></tr>",
            escape(&run.reconstructor),
            run.shares.map_or("–".into(), |shares| text::of_shares(&shares)),
            short(target.x),
            short(target.y),
            short(1e6 * band.wavelength),
            band.strehl,
            target.rms_nm,
            target.rms_nm_tilt_removed,
            band.half_energy_diameter.map_or("–".into(), short),
        );
    }
    rows
}

fn history(page: &mut Page, runs: &[LoopRun], pictures: &[LoopPictures]) {
    let lines: Vec<(&str, &[f32])> = runs
        .iter()
        .zip(pictures)
        .filter(|(_, pictures)| pictures.history.len() > 1)
        .map(|(run, pictures)| (run.reconstructor.as_str(), pictures.history.as_slice()))
        .collect();
    let Some(wavelength) = pictures.iter().find_map(|p| Some(p.psfs.first()?.1)) else { return };
    if lines.is_empty() {
        return;
    }
    let mut markup = String::new();
    if lines.len() > 1 {
        let entry = |(k, (name, _)): (usize, &(&str, &[f32]))| {
            format!("<span><i class=\"b-c{}\"></i>{}</span>", k % 5, escape(name))
        };
        let entries: String = lines.iter().enumerate().map(entry).collect();
        markup += &format!("<p class=\"legend\">{entries}</p>");
    }
    markup += &figure(&loop_charts::history(&lines, wavelength), "First target, first seed.");
    page.section("Strehl ratio against frame", "", &markup);
}

fn psfs(page: &mut Page, runs: &[LoopRun], pictures: &[LoopPictures]) {
    let count: usize = pictures.iter().map(|p| p.psfs.len()).sum();
    if count == 0 {
        return;
    }
    let mut figures = String::new();
    let all = runs.iter().zip(pictures).flat_map(|(run, p)| p.psfs.iter().map(move |psf| (run, psf)));
    for (run, ([x, y], wavelength, psf)) in all.take(IMAGES) {
        let (source, width) = image::picture(psf);
        let (name, microns) = (escape(&run.reconstructor), short(1e6 * wavelength));
        let picture = format!("<img class=\"psf\" alt=\"PSF of {name} at {microns} µm\" src=\"{source}\">");
        let words = format!(
            "<code>{name}</code>, target ({}, {}), {microns} µm, Strehl ratio {:.4}, {} arcsec across",
            short(*x),
            short(*y),
            psf.strehl,
            short(width)
        );
        figures += &figure(&picture, &words);
    }
    let more = match count.saturating_sub(IMAGES) {
        0 => String::new(),
        _ => format!("<p class=\"soft\">The first {IMAGES} of {count}.</p>"),
    };
    let markup = format!("{}<div class=\"row small\">{figures}</div>{more}", image::ramp());
    let words = "Long exposures, on a logarithmic scale, relative to the diffraction-limited peak.";
    page.section("Point-spread functions", words, &markup);
}

fn residuals(page: &mut Page, input: &Input, film: &[Snapshot]) -> Result<(), PipelineError> {
    let Some(last) = film.last() else { return Ok(()) };
    let limit = round_up(3.0 * film.iter().map(Snapshot::rms).fold(1e-12, f64::max));
    let picture = |shot: &Snapshot| {
        let source = image::signed(shot.across, &shot.residual, limit);
        format!("<img class=\"psf pupil\" alt=\"residual of frame {}\" src=\"{source}\">", shot.frame)
    };
    let words = |shot: &Snapshot| format!("frame {}, {:.0} nm", shot.frame, 1e9 * shot.rms());
    let strip: String = film.iter().map(|shot| figure(&picture(shot), &words(shot))).collect();
    let ramp = image::signed_ramp(&format!("{} nm", short(1e9 * limit)));
    page.section(
        "Residual phase",
        "The wavefront towards the first target less the mirror's, without piston, with its rms.",
        &format!("{ramp}<div class=\"row film\">{strip}</div>"),
    );
    let geometry = Geometry::new(&input.system)?;
    let sensor = &geometry.sensors()[0];
    let (slopes, longest) = loop_charts::slopes(sensor, &last.slopes, input.system.diameter);
    let markup = format!(
        "<div class=\"row\">{}{}</div>",
        figure(&picture(last), &format!("Residual towards the first target, {}.", words(last))),
        figure(&slopes, &format!("Slopes of the first sensor; the longest is {} arcsec.", short(longest)))
    );
    page.section("Last frame", "", &markup);
    Ok(())
}

/// Returns the next value above of 1, 2 or 5 times a power of 10.
fn round_up(value: f64) -> f64 {
    let unit = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|f| f * unit).find(|v| *v >= value).unwrap_or(10.0 * unit)
}

fn budget(page: &mut Page, runs: &[LoopRun]) {
    let rows = terms::rows(runs);
    if rows.is_empty() {
        return;
    }
    let heads: String = terms::COLUMNS.iter().map(|name| format!("<th>{name}</th>")).collect();
    let mut body = String::new();
    for row in rows {
        let cells = row.terms.map(|term| format!("<td>{}</td>", terms::cell(term, " ± "))).concat();
        let _ = writeln!(body, "<tr><td>{}</td>{cells}</tr>", escape(&row.name));
    }
    let markup = format!(
        "<div class=\"wide\"><table><thead><tr><th>nm rms</th>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
    );
    page.section(
        "Error budget",
        "Without piston. Terms of a loop are roots of what its variance loses as noise, aliasing and delay are switched off \
         one after the other; the best fit of the mirror leaves the fitting error, and the rest is tomographic. Integrals are \
         over the spectrum of turbulence, for an infinite mirror.",
        &markup,
    );
}

fn stages(page: &mut Page, runs: &[LoopRun]) {
    let mut body = String::new();
    for (run, stages) in runs.iter().filter_map(|run| Some((run, run.stages?))) {
        let list = stages.list();
        let all: f64 = list.iter().map(|(_, seconds)| seconds).sum();
        let mut mix = String::new();
        for (k, (_, seconds)) in list.iter().enumerate() {
            let share = 100.0 * seconds / all.max(1e-12);
            let _ = write!(mix, "<i class=\"b-c{k}\" style=\"width:{share:.2}%\"></i>");
        }
        let cells = list.map(|(_, seconds)| format!("<td>{}</td>", digits(1e3 * seconds))).concat();
        let _ = writeln!(
            body,
            "<tr><td>{}</td><td class=\"left\"><div class=\"mix\">{mix}</div></td>{cells}<td>{}</td><td>{}</td></tr>",
            escape(&run.reconstructor),
            digits(1e3 * all),
            digits(1e3 / run.frames_per_second),
        );
    }
    let Some(first) = runs.iter().find_map(|run| run.stages) else { return };
    let entry = |(k, name): (usize, &str)| format!("<span><i class=\"b-c{k}\"></i>{name}</span>");
    let names = first.list().map(|(name, _)| name);
    let legend: String = names.iter().enumerate().map(|(k, name)| entry((k, name))).collect();
    let heads = names.map(|name| format!("<th>{name}</th>")).concat();
    let markup = format!(
        "<p class=\"legend\">{legend}</p><div class=\"wide\"><table><thead><tr><th>reconstructor</th><th></th>{heads}\
         <th>all tasks</th><th>by the clock</th></tr></thead><tbody>{body}</tbody></table></div>"
    );
    page.section("Time of a frame", "In ms: tasks of all stars, targets and workers together.", &markup);
}
