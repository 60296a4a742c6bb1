//! A PSF as a picture inside the page: a palette bitmap in base 64, the simplest format that every
//! browser reads.

use crate::image::Psf;

/// Decades of the colour scale.
pub(super) const DECADES: f64 = 5.0;
/// Number of pixels across the cropped picture.
const CROP: usize = 160;

/// Colours from dark to bright, perceptually even: black, violet, red, orange, pale yellow.
const STOPS: [[f64; 3]; 6] = [
    [0.0, 0.0, 8.0],
    [59.0, 15.0, 112.0],
    [140.0, 41.0, 129.0],
    [222.0, 73.0, 104.0],
    [254.0, 159.0, 109.0],
    [252.0, 253.0, 191.0],
];

/// Colours of values below and above 0: blue, pale, red.
const SIGNED: [[f64; 3]; 5] = [
    [24.0, 78.0, 160.0],
    [125.0, 180.0, 217.0],
    [246.0, 246.0, 244.0],
    [242.0, 158.0, 122.0],
    [178.0, 28.0, 44.0],
];
/// Colour outside of the pupil.
const OUTSIDE: [u8; 3] = [128, 132, 140];

/// Returns the colour of a value from 0 to 1.
pub(super) fn colour(share: f64) -> [u8; 3] {
    between(&STOPS, share)
}

/// Returns the colour of a value from -1 to 1.
pub(super) fn signed_colour(value: f64) -> [u8; 3] {
    between(&SIGNED, 0.5 + 0.5 * value)
}

fn between(stops: &[[f64; 3]], share: f64) -> [u8; 3] {
    let at = share.clamp(0.0, 1.0) * (stops.len() - 1) as f64;
    let k = (at as usize).min(stops.len() - 2);
    std::array::from_fn(|c| (stops[k][c] + (stops[k + 1][c] - stops[k][c]) * (at - k as f64)).round() as u8)
}

/// Returns a strip of colours with the decades of a PSF below.
pub(super) fn ramp() -> String {
    let decade = |decade: i32| match decade {
        0 => "<span>1</span>".to_owned(),
        decade => format!("<span>10<sup>−{decade}</sup></span>"),
    };
    let ticks: String = (0..=DECADES as i32).rev().map(decade).collect();
    strip(colour, &ticks)
}

/// Returns a strip of the colours of signed values, from `-limit` to `limit`.
pub(super) fn signed_ramp(limit: &str) -> String {
    let ticks = format!("<span>−{limit}</span><span>0</span><span>{limit}</span>");
    strip(|share| signed_colour(2.0 * share - 1.0), &ticks)
}

fn strip(colour: impl Fn(f64) -> [u8; 3], ticks: &str) -> String {
    let stop = |k: i32| {
        let [r, g, b] = colour(f64::from(k) / 10.0);
        format!("rgb({r} {g} {b})")
    };
    let stops: Vec<String> = (0..=10).map(stop).collect();
    let stops = stops.join(",");
    format!(
        "<div class=\"ramp\" style=\"background:linear-gradient(90deg,{stops})\"></div><p class=\"ticks\">{ticks}</p>"
    )
}

/// Returns a picture of values from `-limit` to `limit`, row by row from the bottom; those that are
/// NaN are outside of the pupil.
pub(super) fn signed(size: usize, values: &[f64], limit: f64) -> String {
    let shade = |value: &f64| match value.is_nan() {
        true => 0,
        false => 1 + ((0.5 + 0.5 * value / limit).clamp(0.0, 1.0) * 254.0).round() as u8,
    };
    let palette = |k: usize| match k {
        0 => OUTSIDE,
        k => signed_colour((k as f64 - 1.0) / 127.0 - 1.0),
    };
    let pixels: Vec<u8> = values.iter().map(shade).collect();
    source(&bitmap(size, &flipped(size, &pixels), palette))
}

/// Returns the rows in reverse order.
fn flipped(size: usize, pixels: &[u8]) -> Vec<u8> {
    pixels.chunks(size).rev().flatten().copied().collect()
}

/// Returns the address of a bitmap that holds it.
fn source(bitmap: &[u8]) -> String {
    format!("data:image/bmp;base64,{}", base64(bitmap))
}

/// Returns the centre of an image on a logarithmic scale down to `10^-DECADES` of the
/// diffraction-limited peak, and its width in arcsec.
pub(super) fn picture(psf: &Psf) -> (String, f64) {
    let crop = CROP.min(psf.size);
    (bright(crop, &centre(psf), 0.0), crop as f64 * psf.pixel)
}

/// Returns the difference of two images on the same kind of scale, with the decade at its upper
/// end, the one above the largest difference. `None` for images of different sizes, and for equal
/// ones.
pub(super) fn difference(psf: &Psf, reference: &Psf) -> Option<(String, i32)> {
    if (psf.size, psf.pixel) != (reference.size, reference.pixel) {
        return None;
    }
    let apart: Vec<f64> = centre(psf).iter().zip(centre(reference)).map(|(a, b)| (a - b).abs()).collect();
    let most = apart.iter().copied().fold(0.0, f64::max);
    let decade = (most > 0.0).then(|| most.log10().ceil())?;
    Some((bright(CROP.min(psf.size), &apart, decade), decade as i32))
}

/// Returns the pixels around the centre, row by row.
fn centre(psf: &Psf) -> Vec<f64> {
    let crop = CROP.min(psf.size);
    let first = (psf.size - crop) / 2;
    let value =
        |k: usize| psf.image.get((first + k / crop) * psf.size + first + k % crop).copied().unwrap_or(0.0);
    (0..crop * crop).map(value).collect()
}

/// Returns a picture of values up to `10^decade`, down to `10^-DECADES` of that.
fn bright(size: usize, values: &[f64], decade: f64) -> String {
    let shade = |value: &f64| {
        (((value.max(1e-300).log10() - decade + DECADES) / DECADES).clamp(0.0, 1.0) * 255.0) as u8
    };
    let pixels: Vec<u8> = values.iter().map(shade).collect();
    source(&bitmap(size, &pixels, |k| colour(k as f64 / 255.0)))
}

/// Returns a picture of values from 0 to 1, row by row from the top.
pub(super) fn shares(size: usize, values: &[f64]) -> String {
    let pixels: Vec<u8> = values.iter().map(|value| (value.clamp(0.0, 1.0) * 255.0) as u8).collect();
    source(&bitmap(size, &pixels, |k| colour(k as f64 / 255.0)))
}

/// Returns a strip of the colours of values from `low` to `high`.
pub(super) fn share_ramp(low: &str, high: &str) -> String {
    strip(colour, &format!("<span>{low}</span><span>{high}</span>"))
}

/// Returns an 8-bit bitmap with a palette of 256 colours, row after row from the bottom; rows are
/// padded to 4 bytes.
fn bitmap(size: usize, pixels: &[u8], palette: impl Fn(usize) -> [u8; 3]) -> Vec<u8> {
    let stride = size.next_multiple_of(4);
    let offset = 14 + 40 + 4 * 256;
    let total = offset + stride * size;
    let mut out = Vec::with_capacity(total);
    out.extend_from_slice(b"BM");
    out.extend_from_slice(&(total as u32).to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&(offset as u32).to_le_bytes());
    out.extend_from_slice(&40u32.to_le_bytes());
    out.extend_from_slice(&(size as i32).to_le_bytes());
    out.extend_from_slice(&(size as i32).to_le_bytes());
    out.extend_from_slice(&1u16.to_le_bytes());
    out.extend_from_slice(&8u16.to_le_bytes());
    // There is no compression, and sizes and resolutions are left to the reader.
    out.extend_from_slice(&[0; 24]);
    for k in 0..256 {
        let [r, g, b] = palette(k);
        out.extend_from_slice(&[b, g, r, 0]);
    }
    for row in pixels.chunks(size).rev() {
        out.extend_from_slice(row);
        out.resize(out.len() + stride - size, 0);
    }
    out
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let word = group.iter().fold(0u32, |w, &b| w << 8 | u32::from(b)) << (8 * (3 - group.len()));
        for k in 0..4 {
            if k <= group.len() {
                out.push(char::from(LETTERS[(word >> (18 - 6 * k) & 63) as usize]));
            } else {
                out.push('=');
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_the_standards_examples() {
        for (plain, coded) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }

    #[test]
    fn a_bitmap_has_the_size_it_says() {
        let bytes = bitmap(5, &[7; 25], |k| colour(k as f64 / 255.0));
        assert_eq!(bytes.len(), u32::from_le_bytes(bytes[2..6].try_into().unwrap()) as usize);
        assert_eq!(bytes.len(), 14 + 40 + 1024 + 8 * 5);
        assert_eq!((signed_colour(-1.0), signed_colour(0.0)), ([24, 78, 160], [246, 246, 244]));
        assert_eq!(colour(0.0), [0, 0, 8]);
        assert_eq!(colour(1.0), [252, 253, 191]);
    }
}
