//! Treatment of subnormal numbers in a thread's arithmetic: a processor mode that is set for bodies
//! and restored afterwards.
//!
//! Rust makes no guarantee while this mode differs from the default: the compiler may evaluate
//! constants in the default mode and may move arithmetic across the switch. Neither affects memory
//! safety. Arithmetic on operands still stays between the switches, because it begins with loads
//! and ends with stores, and the switches are barriers for both.

use std::sync::Once;

/// Treatment of subnormal numbers in arithmetic; in `f32` those are below 1.2e-38. See
/// [`RuntimeBuilder::subnormals`](crate::RuntimeBuilder::subnormals).
///
/// ```
/// use zellige_runtime::{Runtime, Submit, Subnormals, update};
///
/// let rt = Runtime::builder().workers(1).subnormals(Subnormals::Flush).build()?;
/// let mode = rt.register(Subnormals::Keep as u8);
/// rt.task("ask").operands((update(&mode),)).cpu(|(mode,)| *mode = Subnormals::of_this_thread() as u8).submit()?;
/// # if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
/// assert_eq!(rt.take(mode)?, Subnormals::Flush as u8);
/// # }
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Subnormals {
    /// Subnormal numbers are kept, as IEEE 754 requires. On many processors such operations take a
    /// hundred times as long.
    #[default]
    Keep,
    /// Subnormal operands and results are flushed to zero (FTZ and DAZ on x86-64, FZ on AArch64).
    /// On other processors they are kept, and a warning is logged.
    Flush,
}

impl Subnormals {
    /// Returns the current mode of the calling thread.
    pub fn of_this_thread() -> Self {
        if control::get() & control::FLUSH == control::FLUSH { Subnormals::Flush } else { Subnormals::Keep }
    }

    /// Sets the mode of the calling thread. Threads inherit the mode of the thread that starts
    /// them; a thread that runs bodies sets its own.
    pub fn set(self) {
        put(self.bits());
    }

    /// Sets the mode of the calling thread until the guard is dropped; the guard then restores the
    /// previous mode, whatever happened in between.
    #[inline]
    pub(crate) fn enter(self) -> Restore {
        let (word, bits) = (control::get(), self.bits());
        if word & control::FLUSH != bits {
            control::put((word & !control::FLUSH) | bits);
        }
        Restore(word & control::FLUSH)
    }

    fn bits(self) -> control::Word {
        match self {
            Subnormals::Keep => 0,
            Subnormals::Flush => control::FLUSH,
        }
    }

    /// Logs a warning, once, if this processor cannot set the mode.
    pub(crate) fn warn_if_impossible(self) {
        static ONCE: Once = Once::new();
        if self == Subnormals::Flush && control::FLUSH == 0 {
            ONCE.call_once(|| {
                tracing::warn!("subnormal numbers cannot be flushed to zero on this processor: they are kept")
            });
        }
    }
}

/// Guard that restores the previous mode; see [`Subnormals::enter`].
pub(crate) struct Restore(control::Word);

impl Drop for Restore {
    #[inline]
    fn drop(&mut self) {
        put(self.0);
    }
}

/// Sets the bits of the mode and leaves the rest of the control word unchanged. Reading the control
/// word is cheap, writing it is not.
#[inline]
fn put(bits: control::Word) {
    let word = control::get();
    if word & control::FLUSH != bits {
        control::put((word & !control::FLUSH) | bits);
    }
}

/// The control word of the processor's floating-point unit.
#[cfg(target_arch = "x86_64")]
mod control {
    use std::arch::asm;

    pub(super) type Word = u32;

    /// FTZ (bit 15) for results, DAZ (bit 6) for operands.
    pub(super) const FLUSH: Word = 1 << 15 | 1 << 6;

    #[inline]
    pub(super) fn get() -> Word {
        let mut word: Word = 0;
        // SAFETY: it stores MXCSR's four bytes into `word`, and changes nothing else.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack, preserves_flags)) };
        word
    }

    #[inline]
    pub(super) fn put(word: Word) {
        // SAFETY: `word` is what MXCSR held, but for FTZ and DAZ: no reserved bit is set, no
        // exception unmasked, the rounding unchanged. What these two bits mean for the compiler:
        // see the module.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack)) };
    }
}

/// The control word of the processor's floating-point unit.
#[cfg(target_arch = "aarch64")]
mod control {
    use std::arch::asm;

    pub(super) type Word = u64;

    /// FZ, for operands and results of `f32` and `f64`.
    pub(super) const FLUSH: Word = 1 << 24;

    #[inline]
    pub(super) fn get() -> Word {
        let word: Word;
        // SAFETY: it reads FPCR, which every process may.
        unsafe { asm!("mrs {}, fpcr", out(reg) word, options(nostack, preserves_flags)) };
        word
    }

    #[inline]
    pub(super) fn put(word: Word) {
        // SAFETY: `word` is what FPCR held, but for FZ. What that means for the compiler: see the
        // module.
        unsafe { asm!("msr fpcr, {}", in(reg) word, options(nostack)) };
    }
}

/// Fallback for processors on which the mode cannot be set.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod control {
    pub(super) type Word = u32;
    pub(super) const FLUSH: Word = 0;

    pub(super) fn get() -> Word {
        1
    }

    pub(super) fn put(_word: Word) {}
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    fn half_the_smallest() -> f32 {
        black_box(f32::MIN_POSITIVE) / black_box(2.0)
    }

    #[test]
    fn modes_nest_and_are_given_back_also_by_a_panic() {
        let before = Subnormals::of_this_thread();
        assert!(half_the_smallest() > 0.0 && before == Subnormals::Keep);
        {
            let _flush = Subnormals::Flush.enter();
            assert!(control::FLUSH == 0 || half_the_smallest() == 0.0);
            let _keep = Subnormals::Keep.enter();
            assert!(half_the_smallest() > 0.0);
            // Acts like foreign code that does not restore the mode.
            Subnormals::Flush.set();
        }
        assert_eq!(Subnormals::of_this_thread(), before);
        let panicked = std::panic::catch_unwind(|| {
            let _flush = Subnormals::Flush.enter();
            panic!("in a body");
        });
        assert!(panicked.is_err() && half_the_smallest() > 0.0);
    }

    #[test]
    fn an_operand_is_taken_for_zero_too() {
        let tiny = f32::from_bits(1);
        assert!(black_box(tiny) * black_box(1e30) > 0.0);
        let _flush = Subnormals::Flush.enter();
        assert!(control::FLUSH == 0 || black_box(tiny) * black_box(1e30) == 0.0);
    }
}
