//! What a thread's arithmetic does with subnormal numbers: a mode of the processor, set for bodies
//! and given back afterwards.
//!
//! Rust promises nothing where this mode is not the default one: the compiler may compute constants
//! as if it were, and may move arithmetic across the switch. Neither endangers memory. Arithmetic
//! on operands stays inside the switch all the same: it begins with loads and ends with stores, and
//! the switches are barriers for those.

use std::sync::Once;

/// What arithmetic does with subnormal numbers, in `f32` those below 1.2e-38; see
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
    /// It computes with them, as IEEE 754 says. Many processors then take a hundred times as long.
    #[default]
    Keep,
    /// It takes them for zero, as operands and as results (FTZ and DAZ on x86-64, FZ on AArch64).
    /// Elsewhere they are kept, and a warning says so.
    Flush,
}

impl Subnormals {
    /// What the calling thread's arithmetic does with them now.
    pub fn of_this_thread() -> Self {
        if control::get() & control::FLUSH == control::FLUSH { Subnormals::Flush } else { Subnormals::Keep }
    }

    /// The calling thread computes so from now on. Threads inherit the mode of whoever starts them:
    /// one that runs bodies sets its own.
    pub fn set(self) {
        put(self.bits());
    }

    /// The calling thread computes so until the guard is dropped, and then as it did before,
    /// whatever happened meanwhile.
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

    /// Says, once, where this processor cannot do what is asked for.
    pub(crate) fn warn_if_impossible(self) {
        static ONCE: Once = Once::new();
        if self == Subnormals::Flush && control::FLUSH == 0 {
            ONCE.call_once(|| {
                tracing::warn!("subnormal numbers cannot be flushed to zero on this processor: they are kept")
            });
        }
    }
}

/// See [`Subnormals::enter`].
pub(crate) struct Restore(control::Word);

impl Drop for Restore {
    #[inline]
    fn drop(&mut self) {
        put(self.0);
    }
}

/// Makes the mode's bits these; nothing else of the control word changes. Reading it is cheap,
/// writing it is not.
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

    /// FTZ (bit 15): results; DAZ (bit 6): operands.
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

    /// FZ: operands and results of `f32` and `f64`.
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

/// A processor on which nothing is done.
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
            // As foreign code that forgets to put it back.
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
