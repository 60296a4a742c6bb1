//! Numbers of storage formats.

/// Storage format of the numbers of one version of a value. The runtime treats formats as opaque
/// and only compares them; the crate that owns the data type defines their meaning.
///
/// ```
/// use zellige_runtime::{Data, Format, Meta, Runtime, Submit, read, update};
///
/// const HALF: Format = Format(1);
///
/// /// Numbers in double or, as replicas, in single precision.
/// enum Numbers {
///     Double(Vec<f64>),
///     Single(Vec<f32>),
/// }
///
/// impl Data for Numbers {
///     type Ref<'v> = &'v Numbers;
///     type Mut<'v> = &'v mut Numbers;
///
///     fn view(&self) -> &Numbers {
///         self
///     }
///
///     fn view_mut(&mut self) -> &mut Numbers {
///         self
///     }
///
///     fn meta(&self) -> Meta {
///         match self {
///             Numbers::Double(x) => Meta { bytes: size_of_val(&**x), ..Meta::default() },
///             Numbers::Single(x) => Meta { format: HALF, bytes: size_of_val(&**x), ..Meta::default() },
///         }
///     }
///
///     fn size_as(meta: &Meta, to: Format) -> Option<usize> {
///         Some(if to == HALF && meta.format != HALF { meta.bytes / 2 } else { meta.bytes })
///     }
///
///     fn convert(&self, to: Format) -> Option<Numbers> {
///         match self {
///             Numbers::Double(x) if to == HALF => Some(Numbers::Single(x.iter().map(|&x| x as f32).collect())),
///             _ => None,
///         }
///     }
/// }
///
/// let rt = Runtime::builder().workers(1).build()?;
/// let (x, same) = (rt.register(Numbers::Double(vec![1.0, 2.0])), rt.register(false));
/// rt.task("look")
///     .operands((read(&x).as_format(HALF), update(&same)))
///     .cpu(|(x, same)| *same = matches!(x, Numbers::Single(x) if *x == [1.0, 2.0]))
///     .submit()?;
/// assert!(rt.take(same)?);
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Format(pub u16);

impl Format {
    /// The format that the last writer used.
    pub const NATIVE: Format = Format(0);
}
