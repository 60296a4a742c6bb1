//! Writers for formats that the library only reads.

use num_complex::Complex;
use zellige_lqcd::files::ByteOrder;
use zellige_lqcd::observables::{link_trace, plaquettes};
use zellige_lqcd::su3::from_numbers;
use zellige_lqcd::{Gauge, Geometry};

/// Returns a small field of different links.
pub fn field() -> Gauge {
    let mut state = 1u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    Gauge::from_fn(Geometry::new([4, 4, 6, 4]).expect("a lattice"), |_, _| from_numbers(&mut next))
}

/// Returns a small field with a large plaquette, which links in another order do not have.
pub fn smooth() -> Gauge {
    let (mut state, mut at) = (1u64, 0);
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        at = (at + 1) % 18;
        // The real parts of the diagonal are the numbers 0, 8 and 16.
        let one = if at % 8 == 1 { 1.0 } else { 0.0 };
        one + 0.3 * ((state >> 11) as f64 / (1u64 << 52) as f64 - 1.0)
    };
    let near_one = Gauge::from_fn(field().geometry(), |_, _| from_numbers(&mut next));
    near_one.transformed(field().of_direction(0))
}

/// Returns the bytes of each site, in the order of files.
pub fn sites(u: &Gauge, rows: usize, bits: u32, order: ByteOrder) -> Vec<Vec<u8>> {
    let [nx, ny, nz, nt] = u.geometry().extents();
    let ends = |mut bytes: Vec<u8>| {
        if order == ByteOrder::Little {
            bytes.reverse();
        }
        bytes
    };
    let number = |x: f64| match bits {
        32 => ends((x as f32).to_be_bytes().to_vec()),
        _ => ends(x.to_be_bytes().to_vec()),
    };
    let of_site = |rank: usize| {
        let at = [rank % nx, rank / nx % ny, rank / (nx * ny) % nz, rank / (nx * ny * nz)];
        let links = (0..4).map(|mu| *u.link(u.geometry().site(at), mu));
        let elements = links.flat_map(|link| link.into_iter().take(rows)).flatten();
        elements.flat_map(|z: Complex<f64>| [z.re, z.im]).flat_map(number).collect()
    };
    (0..nx * ny * nz * nt).map(of_site).collect()
}

/// Returns a NERSC file.
pub fn nersc(u: &Gauge, rows: usize, bits: u32, order: ByteOrder) -> Vec<u8> {
    let data = sites(u, rows, bits, order).concat();
    let word = |four: &[u8]| {
        let four = four.try_into().expect("four bytes");
        if order == ByteOrder::Big { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) }
    };
    let sum = data.chunks_exact(4).map(word).fold(0, u32::wrapping_add);
    let [x, y, z, t] = u.geometry().extents();
    let kind = if rows == 2 { "4D_SU3_GAUGE" } else { "4D_SU3_GAUGE_3x3" };
    let end = if order == ByteOrder::Big { "BIG" } else { "LITTLE" };
    let (plaquette, trace) = (plaquettes(u).mean(), link_trace(u));
    let header = format!(
        "BEGIN_HEADER\nHDR_VERSION = 1.0\nDATATYPE = {kind}\nDIMENSION_1 = {x}\nDIMENSION_2 = {y}\nDIMENSION_3 = {z}\nDIMENSION_4 = {t}\n\
         CHECKSUM = {sum:x}\nLINK_TRACE = {trace:.6}\nPLAQUETTE = {plaquette:.6}\nENSEMBLE_ID = test\nFLOATING_POINT = IEEE{bits}{end}\nEND_HEADER\n"
    );
    [header.into_bytes(), data].concat()
}

/// Returns a record of a LIME file.
pub fn record(name: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = 0x4567_89abu32.to_be_bytes().to_vec();
    bytes.extend([0, 1, 0, 0]);
    bytes.extend((data.len() as u64).to_be_bytes());
    bytes.extend(name.as_bytes());
    bytes.resize(144, 0);
    bytes.extend(data);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

/// Returns the bytewise CRC-32 of zip files.
fn crc(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        let shift = |crc: u32, _| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
        (0..8).fold(crc ^ u32::from(*byte), shift)
    };
    !bytes.iter().fold(!0, step)
}

/// Returns the record with the checksums of some sites.
pub fn checksums(sites: &[Vec<u8>]) -> Vec<u8> {
    let sum = |modulus: u32| {
        let each = sites.iter().enumerate().map(|(rank, site)| crc(site).rotate_left(rank as u32 % modulus));
        each.fold(0, |sum, one| sum ^ one)
    };
    let text =
        format!("<scidacChecksum><suma>{:x}</suma><sumb>{:x}</sumb></scidacChecksum>", sum(29), sum(31));
    record("scidac-checksum", text.as_bytes())
}

/// Returns an ILDG file.
pub fn ildg(u: &Gauge, bits: u32) -> Vec<u8> {
    let [x, y, z, t] = u.geometry().extents();
    let format = format!(
        "<?xml version=\"1.0\"?><ildgFormat><version>1.0</version><field>su3gauge</field><precision>{bits}</precision>\
         <lx>{x}</lx><ly>{y}</ly><lz>{z}</lz><lt>{t}</lt></ildgFormat>"
    );
    let data = sites(u, 3, bits, ByteOrder::Big);
    [
        record("unknown", b"odd"),
        record("ildg-format", format.as_bytes()),
        record("ildg-binary-data", &data.concat()),
        checksums(&data),
    ]
    .concat()
}

/// Returns a SciDAC file in 32 bits.
pub fn scidac(u: &Gauge) -> Vec<u8> {
    let dims = u.geometry().extents().map(|extent| extent.to_string()).join(" ");
    let file = format!(
        "<scidacFile><version>1.1</version><spacetime>4</spacetime><dims>{dims} </dims></scidacFile>"
    );
    let about = "<scidacRecord><datatype>QDP_F3_ColorMatrix</datatype><precision>F</precision><colors>3</colors>\
                 <typesize>72</typesize><datacount>4</datacount></scidacRecord>";
    let data = sites(u, 3, 32, ByteOrder::Big);
    [
        record("scidac-private-file-xml", file.as_bytes()),
        record("scidac-private-record-xml", about.as_bytes()),
        record("scidac-record-xml", b"<info>a test</info>"),
        record("scidac-binary-data", &data.concat()),
        checksums(&data),
    ]
    .concat()
}

/// Returns the bytes of a link in float64.
fn doubles(link: &[[Complex<f64>; 3]; 3], order: ByteOrder) -> Vec<u8> {
    let bytes = |x: f64| if order == ByteOrder::Big { x.to_be_bytes() } else { x.to_le_bytes() };
    link.iter().flatten().flat_map(|z| [z.re, z.im]).flat_map(bytes).collect()
}

/// Returns an openQCD file, or one with extents as PyQUDA writes them.
pub fn openqcd(u: &Gauge, is_pyqudas: bool) -> Vec<u8> {
    let [nx, ny, nz, nt] = u.geometry().extents();
    let extents = if is_pyqudas { [nt, nz, ny, nx] } else { [nt, nx, ny, nz] };
    let mut bytes: Vec<u8> = extents.iter().flat_map(|extent| (*extent as u32).to_le_bytes()).collect();
    bytes.extend((3.0 * plaquettes(u).mean()).to_le_bytes());
    let link = |[x, y, z, t]: [usize; 4], mu: usize| {
        *u.link(u.geometry().site([x % nx, y % ny, z % nz, t % nt]), mu)
    };
    for t in 0..nt {
        for x in 0..nx {
            for y in 0..ny {
                for z in (0..nz).filter(|z| (x + y + z + t) % 2 == 1) {
                    let before = [
                        [x, y, z, t + nt - 1],
                        [x + nx - 1, y, z, t],
                        [x, y + ny - 1, z, t],
                        [x, y, z + nz - 1, t],
                    ];
                    for (before, mu) in before.into_iter().zip([3, 0, 1, 2]) {
                        bytes.extend(doubles(&link([x, y, z, t], mu), ByteOrder::Little));
                        bytes.extend(doubles(&link(before, mu), ByteOrder::Little));
                    }
                }
            }
        }
    }
    bytes
}

/// Returns an npy file with these sides and values.
pub fn npy(kind: &str, sides: &[usize], values: &[u8]) -> Vec<u8> {
    let sides: Vec<String> = sides.iter().map(usize::to_string).collect();
    let header =
        format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({}), }}\n", sides.join(", "));
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), values].concat()
}

/// Returns links as an array of PyQUDA, of ILDG's data, and of openQCD's fields, with the sides.
pub fn arrays(u: &Gauge, order: ByteOrder) -> [(Vec<usize>, Vec<u8>); 3] {
    let [nx, ny, nz, nt] = u.geometry().extents();
    let link = |at: [usize; 4], mu: usize| doubles(u.link(u.geometry().site(at), mu), order);
    let mut made = [vec![], vec![], vec![]];
    let sites = || 0..nx * ny * nz * nt;
    // One order has x fastest, the other z.
    let by_x = |k: usize| [k % nx, k / nx % ny, k / (nx * ny) % nz, k / (nx * ny * nz)];
    let by_z = |k: usize| [k / (nz * ny) % nx, k / nz % ny, k % nz, k / (nz * ny * nx)];
    (0..4).for_each(|mu| sites().for_each(|k| made[0].extend(link(by_x(k), mu))));
    sites().for_each(|k| (0..4).for_each(|mu| made[1].extend(link(by_x(k), mu))));
    sites().for_each(|k| [3, 0, 1, 2].into_iter().for_each(|mu| made[2].extend(link(by_z(k), mu))));
    let sides = [vec![4, nt, nz, ny, nx, 3, 3], vec![nt, nz, ny, nx, 4, 3, 3], vec![nt, nx, ny, nz, 4, 3, 3]];
    let mut both = sides.into_iter().zip(made);
    std::array::from_fn(|_| both.next().expect("three"))
}
