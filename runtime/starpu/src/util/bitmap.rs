//! Sets of bits.

use super::*;

/// A set of small numbers, such as those of workers.
#[repr(C)]
pub struct starpu_bitmap {
    bits: u64,
    cardinal: c_int,
}

impl starpu_bitmap {
    fn set_bits(&mut self, bits: u64) {
        self.bits = bits;
        self.cardinal = bits.count_ones() as c_int;
    }

    /// The members above `bit`.
    fn above(&self, bit: c_int) -> u64 {
        match bit + 1 {
            next if next <= 0 => self.bits,
            next if next >= 64 => 0,
            next => self.bits >> next << next,
        }
    }
}

fn mask(bit: c_int) -> u64 {
    if !(0..64).contains(&bit) {
        crate::interface::misuse("starpu_bitmap", &format!("{bit} is not below {STARPU_NMAXWORKERS}"));
    }
    1 << bit
}

/// The lowest of some members, or -1.
fn lowest(bits: u64) -> c_int {
    if bits == 0 { -1 } else { bits.trailing_zeros() as c_int }
}

/// Makes an empty set, which `starpu_bitmap_destroy` frees.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_bitmap_create() -> *mut starpu_bitmap {
    // SAFETY: any size may be asked for, and zeros are an empty set.
    unsafe { calloc(1, size_of::<starpu_bitmap>()) }.cast()
}

/// Frees a set.
///
/// # Safety
/// `bitmap` is from `starpu_bitmap_create`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_bitmap_destroy(bitmap: *mut starpu_bitmap) {
    // SAFETY: the caller's promise.
    unsafe { free(bitmap.cast()) };
}

macro_rules! on_bitmap {
    ($($(#[doc = $doc:literal])* fn $name:ident($bitmap:ident $(, $arg:ident: $type:ty)*) $(-> $result:ty)? $body:block)*) => {$(
        $(#[doc = $doc])*
        ///
        /// # Safety
        /// All sets are valid.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(bitmap: *mut starpu_bitmap $(, $arg: $type)*) $(-> $result)? {
            // SAFETY: the caller's promise.
            let $bitmap = unsafe { &mut *bitmap };
            $body
        }
    )*};
}

on_bitmap! {
    /// Makes a set empty.
    fn starpu_bitmap_init(b) { b.set_bits(0); }
    /// Makes a set empty.
    fn starpu_bitmap_unset_all(b) { b.set_bits(0); }
    /// Adds a member.
    fn starpu_bitmap_set(b, bit: c_int) { b.set_bits(b.bits | mask(bit)); }
    /// Takes a member away.
    fn starpu_bitmap_unset(b, bit: c_int) { b.set_bits(b.bits & !mask(bit)); }
    /// Whether something is a member.
    fn starpu_bitmap_get(b, bit: c_int) -> c_int { c_int::from(b.bits & mask(bit) != 0) }
    /// The number of members.
    fn starpu_bitmap_cardinal(b) -> c_int { b.cardinal }
    /// The lowest member, or -1.
    fn starpu_bitmap_first(b) -> c_int { lowest(b.bits) }
    /// The highest member, or -1.
    fn starpu_bitmap_last(b) -> c_int { 63 - b.bits.leading_zeros() as c_int }
    /// The lowest member above another, or -1.
    fn starpu_bitmap_next(b, bit: c_int) -> c_int { lowest(b.above(bit)) }
    /// Whether there is a member above another.
    fn starpu_bitmap_has_next(b, bit: c_int) -> c_int { c_int::from(b.above(bit) != 0) }
}

/// Makes a set of what two others share.
///
/// # Safety
/// All sets are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_bitmap_unset_and(
    into: *mut starpu_bitmap,
    a: *mut starpu_bitmap,
    b: *mut starpu_bitmap,
) {
    // SAFETY: the caller's promise; the sets may be the same one.
    unsafe { (*into).set_bits((*a).bits & (*b).bits) };
}

/// Adds the members of another set.
///
/// # Safety
/// Both sets are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_bitmap_or(into: *mut starpu_bitmap, from: *mut starpu_bitmap) {
    // SAFETY: the caller's promise; the sets may be the same one.
    unsafe { (*into).set_bits((*into).bits | (*from).bits) };
}

/// Whether something is a member of both sets.
///
/// # Safety
/// Both sets are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_bitmap_and_get(
    a: *mut starpu_bitmap,
    b: *mut starpu_bitmap,
    bit: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    c_int::from(unsafe { (*a).bits & (*b).bits } & mask(bit) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_bits() {
        let mut set = starpu_bitmap { bits: 0, cardinal: 0 };
        // SAFETY: the set is a local variable.
        unsafe {
            for bit in [3, 0, 63, 3] {
                starpu_bitmap_set(&mut set, bit);
            }
            assert_eq!(starpu_bitmap_cardinal(&mut set), 3);
            let mut members = vec![starpu_bitmap_first(&mut set)];
            while starpu_bitmap_has_next(&mut set, *members.last().unwrap()) != 0 {
                members.push(starpu_bitmap_next(&mut set, *members.last().unwrap()));
            }
            assert_eq!(members, [0, 3, 63]);
            assert_eq!(starpu_bitmap_last(&mut set), 63);
            starpu_bitmap_unset(&mut set, 63);
            assert_eq!((starpu_bitmap_last(&mut set), starpu_bitmap_next(&mut set, 3)), (3, -1));
        }
    }
}
