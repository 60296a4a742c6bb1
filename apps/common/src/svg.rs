//! SVG pictures as text: axes, marks, and the escaping of text.

use std::fmt::Write;

/// Escapes text for HTML.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// Formats a number with about three digits.
pub fn short(x: f64) -> String {
    if x == 0.0 {
        "0".into()
    } else if !x.is_finite() {
        "–".into()
    } else if (1e-3..1e5).contains(&x.abs()) {
        let digits = (2 - x.abs().log10().floor() as i32).clamp(0, 5) as usize;
        format!("{x:.digits$}")
    } else {
        format!("{x:.1e}").replace("e-", "e−")
    }
}

/// Returns true for values that a logarithmic scale can show.
pub fn positive(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

/// Returns the smallest and the largest of some numbers; a decade if there are none.
pub fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values
        .fold(None, |range, value| {
            let (least, most) = range.unwrap_or((value, value));
            Some((value.min(least), value.max(most)))
        })
        .unwrap_or((0.1, 1.0))
}

/// Linear or logarithmic map from values to pixels.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    from: f64,
    to: f64,
    low: f64,
    high: f64,
    log: bool,
}

impl Scale {
    /// Maps `from..to` linearly to the pixels `low..high`.
    pub fn linear(from: f64, to: f64, low: f64, high: f64) -> Self {
        let to = if to > from { to } else { from + 1.0 };
        Scale { from, to, low, high, log: false }
    }

    /// Maps the decades that contain `from..to`, at least one, to the pixels `low..high`.
    pub fn log(from: f64, to: f64, low: f64, high: f64) -> Self {
        let from = if positive(from) { from.log10().floor() } else { -1.0 };
        let to = if positive(to) { to.log10().ceil() } else { from + 1.0 };
        Scale { from, to: to.max(from + 1.0), low, high, log: true }
    }

    /// Returns the pixel of a value; values outside of the range are at its ends.
    pub fn at(&self, x: f64) -> f64 {
        let x = if self.log { x.max(1e-300).log10() } else { x };
        let share = ((x - self.from) / (self.to - self.from)).clamp(0.0, 1.0);
        self.low + share * (self.high - self.low)
    }

    /// Returns values for ticks, with their labels.
    pub fn ticks(&self, about: usize) -> Vec<(f64, String)> {
        if self.log {
            let step = ((self.to - self.from) / about as f64).ceil().max(1.0);
            let count = ((self.to - self.from) / step).floor() as usize;
            let exponents = (0..=count).map(|k| self.from + k as f64 * step);
            return exponents.map(|e| (10f64.powf(e), power(e as i32))).collect();
        }
        let rough = (self.to - self.from) / about as f64;
        let unit = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|f| f * unit).find(|s| *s >= rough).unwrap_or(rough);
        let first = (self.from / step).ceil();
        let last = (self.to / step + 1e-9).floor();
        let digits = (-step.log10().floor()).clamp(0.0, 8.0) as usize;
        let values = (0..=((last - first).max(0.0) as usize)).map(|k| (first + k as f64) * step);
        values.map(|v| (v, format!("{v:.digits$}").replace('-', "−"))).collect()
    }
}

fn power(exponent: i32) -> String {
    match exponent {
        0 => "1".into(),
        1 => "10".into(),
        e => format!("10{}", superscript(e)),
    }
}

fn superscript(x: i32) -> String {
    let digit = |c: char| match c {
        '-' => '⁻',
        c => ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'][c.to_digit(10).unwrap_or(0) as usize],
    };
    x.to_string().chars().map(digit).collect()
}

/// A chart under construction: its size, its plotting area, and its markup.
#[derive(Debug)]
pub struct Chart {
    /// Width of the picture (pixels).
    pub width: f64,
    /// Height of the picture (pixels).
    pub height: f64,
    /// Left end of the plotting area (pixels).
    pub left: f64,
    /// Top end of the plotting area (pixels).
    pub top: f64,
    /// Right end of the plotting area (pixels).
    pub right: f64,
    /// Bottom end of the plotting area (pixels).
    pub bottom: f64,
    body: String,
    label: String,
}

impl Chart {
    /// Returns an empty chart; `label` describes the picture, and margins are top, right, bottom,
    /// left.
    pub fn new(width: f64, height: f64, margins: [f64; 4], label: &str) -> Self {
        let [top, right, bottom, left] = margins;
        Chart {
            width,
            height,
            left,
            top,
            right: width - right,
            bottom: height - bottom,
            body: String::new(),
            label: escape(label),
        }
    }

    /// Appends markup.
    pub fn put(&mut self, markup: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.body.write_fmt(markup);
        self.body.push('\n');
    }

    /// Adds text at a position; `anchor` is start, middle or end.
    pub fn text(&mut self, x: f64, y: f64, anchor: &str, class: &str, text: &str) {
        let text = escape(text);
        self.put(format_args!(
            r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" class="{class}">{text}</text>"#
        ));
    }

    /// Adds a vertical axis with grid lines and a title above.
    pub fn y_axis(&mut self, scale: &Scale, title: &str) {
        for (value, label) in scale.ticks(6) {
            let y = scale.at(value);
            let (left, right) = (self.left, self.right);
            self.put(format_args!(r#"<path d="M{left:.1} {y:.1}H{right:.1}" class="grid"/>"#));
            self.text(left - 6.0, y + 4.0, "end", "tick", &label);
        }
        self.text(self.left, self.top - 8.0, "start", "axis", title);
    }

    /// Adds a horizontal axis with a title below.
    pub fn x_axis(&mut self, scale: &Scale, title: &str, grid: bool) {
        let (left, right, top, bottom) = (self.left, self.right, self.top, self.bottom);
        self.put(format_args!(r#"<path d="M{left:.1} {bottom:.1}H{right:.1}" class="base"/>"#));
        for (value, label) in scale.ticks(5) {
            let x = scale.at(value);
            if grid {
                self.put(format_args!(r#"<path d="M{x:.1} {top:.1}V{bottom:.1}" class="grid"/>"#));
            }
            self.text(x, bottom + 16.0, "middle", "tick", &label);
        }
        self.text((left + right) / 2.0, bottom + 34.0, "middle", "axis", title);
    }

    /// Adds a line through points.
    pub fn line(&mut self, points: &[(f64, f64)], class: &str) {
        let mut path = String::new();
        for (k, (x, y)) in points.iter().enumerate() {
            let _ = write!(path, "{}{x:.1} {y:.1}", if k == 0 { "M" } else { "L" });
        }
        self.put(format_args!(r#"<path d="{path}" class="line {class}"/>"#));
    }

    /// Returns the complete picture.
    pub fn finish(self) -> String {
        format!(
            r#"<svg viewBox="0 0 {0:.0} {1:.0}" style="max-width:{0:.0}px" role="img" aria-label="{2}">{3}</svg>"#,
            self.width, self.height, self.label, self.body
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_become_markup() {
        assert_eq!(escape("<b a='1'>&\"\n"), "&lt;b a=&#39;1&#39;&gt;&amp;&quot; ");
    }

    #[test]
    fn scales_hold_their_ends() {
        let s = Scale::linear(0.0, 2.0, 10.0, 30.0);
        assert_eq!((s.at(0.0), s.at(1.0), s.at(5.0)), (10.0, 20.0, 30.0));
        let s = Scale::log(3e-3, 20.0, 0.0, 5.0);
        assert_eq!((s.at(1e-3), s.at(100.0), s.at(0.0)), (0.0, 5.0, 0.0));
        assert_eq!(s.ticks(6).len(), 6);
        assert_eq!(s.ticks(6)[0].1, "10⁻³");
        let labels: Vec<String> =
            Scale::linear(0.0, 1.0, 0.0, 1.0).ticks(5).into_iter().map(|t| t.1).collect();
        assert_eq!(labels, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        for broken in [Scale::linear(1.0, 1.0, 0.0, 1.0), Scale::log(f64::NAN, 0.0, 0.0, 1.0)] {
            assert!(broken.at(1.0).is_finite() && broken.ticks(5).len() < 20);
        }
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(short(0.816_170_7), "0.816");
        assert_eq!(short(1234.5), "1234");
        assert_eq!(short(2.3e-7), "2.3e−7");
        assert_eq!(short(0.0), "0");
    }
}
