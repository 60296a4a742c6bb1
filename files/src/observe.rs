//! Who watches work that takes a while: progress, warnings, and whether it shall stop.

/// Learns how far work is. All methods may be called from any thread.
///
/// ```
/// use zellige_files::observe::{Observer, Silent};
///
/// struct Lines;
///
/// impl Observer for Lines {
///     fn stage(&self, name: &str, total: u64) {
///         println!("{name}: {total} steps");
///     }
///     fn advance(&self, _done: u64) {}
///     fn warn(&self, text: &str) {
///         eprintln!("warning: {text}");
///     }
/// }
///
/// fn work(observer: &dyn Observer) {
///     observer.stage("count", 3);
///     (1..=3).take_while(|_| !observer.cancelled()).for_each(|done| observer.advance(done));
/// }
/// work(&Lines);
/// work(&Silent);
/// ```
pub trait Observer: Sync {
    /// A stage begins; it is complete after `total` steps.
    fn stage(&self, name: &str, total: u64);

    /// Reports that `done` steps of the stage are complete.
    fn advance(&self, done: u64);

    /// Reports a warning to the user.
    fn warn(&self, text: &str);

    /// Returns true if the work shall stop; called a few times per second.
    fn cancelled(&self) -> bool {
        false
    }
}

/// An observer without output.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn stage(&self, _name: &str, _total: u64) {}
    fn advance(&self, _done: u64) {}
    fn warn(&self, _text: &str) {}
}
