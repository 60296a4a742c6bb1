//! A list of handles of one type as one operand: their values, or what is known of them.

use std::sync::Arc;

use super::access::{HeldRef, hold, meta};
use super::gpu::OnGpu;
use super::{Accesses, Declared, Formats, Metas, Mode, Operand, Wanted};
use crate::data::{AnyHandle, Data, Handle, HandleCore, Kind, Meta};
use crate::error::TaskError;
use crate::format::Format;
use crate::gpu::CudaList;
use crate::task::{DeviceKind, Env, Refusal};

/// Reads a list of handles; see [`reads`].
pub struct ReadList<D: Data> {
    cores: Vec<Arc<HandleCore<D>>>,
    format: Format,
}

/// The body reads every handle of a list, of any length: it sees a [`List`].
pub fn reads<'h, D: Data>(handles: impl IntoIterator<Item = &'h Handle<D>>) -> ReadList<D> {
    let cores = handles.into_iter().map(|handle| Arc::clone(handle.core())).collect();
    ReadList { cores, format: Format::NATIVE }
}

impl<D: Data> ReadList<D> {
    /// Asks for every value in another format.
    #[must_use]
    pub fn as_format(self, format: Format) -> Self {
        ReadList { format, ..self }
    }
}

/// The values of a list of handles.
pub struct List<'v, D: Data>(&'v [HeldRef<D>]);

impl<'v, D: Data> List<'v, D> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True for a list of none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of handle `i`.
    ///
    /// # Panics
    /// If `i >= len()`.
    pub fn get(&self, i: usize) -> D::Ref<'v> {
        self.0[i].view()
    }

    /// All values in order.
    pub fn iter(&self) -> impl Iterator<Item = D::Ref<'v>> + use<'v, D> {
        self.0.iter().map(HeldRef::view)
    }
}

impl<D: Data> Operand for ReadList<D> {
    type View<'v, K: DeviceKind> = K::List<'v, D>;
    type Held = Vec<HeldRef<D>>;

    fn declare<'a>(&'a self, out: &mut Accesses<'a>) {
        out.extend(self.cores.iter().map(|core| (core, Mode::Read).into()));
    }

    fn formats(&self, wanted: Wanted, out: &mut Formats) {
        out.extend((0..self.cores.len()).map(|at| wanted.of_element(at, self.format)));
    }

    fn metas<'e>(&'e self, env: &mut Env<'e>, out: &mut Metas) -> Result<(), Refusal> {
        for core in &self.cores {
            let core = env.resolve(core);
            env.check(&core.base)?;
            out.push(meta(core));
        }
        Ok(())
    }

    fn acquire<'e>(&'e self, env: &mut Env<'e>, wanted: Wanted) -> Result<Vec<HeldRef<D>>, Refusal> {
        let hold = |(at, core)| {
            let core = env.resolve(core);
            hold(core, wanted.of_element(at, self.format), env)
        };
        self.cores.iter().enumerate().map(hold).collect()
    }

    fn view<'v>(held: &'v mut Vec<HeldRef<D>>) -> List<'v, D> {
        List(held)
    }

    fn release(_held: Vec<HeldRef<D>>, _env: &mut Env<'_>, _ok: bool) -> Result<(), TaskError> {
        Ok(())
    }

    type OnGpu = Vec<OnGpu>;

    fn acquire_on_gpu<'e>(&'e self, env: &mut Env<'e>) -> Result<Vec<OnGpu>, Refusal> {
        self.cores
            .iter()
            .map(|core| {
                let core = env.resolve(core);
                OnGpu::existing(core, env, Kind::Shared)
            })
            .collect()
    }

    fn view_on_gpu(held: &mut Vec<OnGpu>) -> CudaList<'_, D> {
        CudaList(held.iter().map(OnGpu::view).collect())
    }
}

/// Reads what is known of a list of handles; see [`metas`].
pub struct MetaList<D: Data> {
    cores: Vec<Arc<HandleCore<D>>>,
}

/// The body sees the [`Meta`] of every handle of a list (format, size, norm), and waits for their writers as a reader does; the
/// values stay where they are, on whatever device.
pub fn metas<'h, D: Data>(handles: impl IntoIterator<Item = &'h Handle<D>>) -> MetaList<D> {
    MetaList { cores: handles.into_iter().map(|handle| Arc::clone(handle.core())).collect() }
}

impl<D: Data> Operand for MetaList<D> {
    type View<'v, K: DeviceKind> = &'v [Meta];
    type Held = Metas;

    fn declare<'a>(&'a self, out: &mut Accesses<'a>) {
        out.extend(self.cores.iter().map(|core| Declared { look: true, ..(core, Mode::Read).into() }));
    }

    fn formats(&self, _wanted: Wanted, out: &mut Formats) {
        out.extend(self.cores.iter().map(|_| Format::NATIVE));
    }

    fn metas<'e>(&'e self, env: &mut Env<'e>, out: &mut Metas) -> Result<(), Refusal> {
        for core in &self.cores {
            let core = env.resolve(core);
            env.check(&core.base)?;
            let any: &dyn AnyHandle = core;
            out.push(if env.is_placed() { any.current() } else { meta(core) });
        }
        Ok(())
    }

    fn acquire<'e>(&'e self, env: &mut Env<'e>, _wanted: Wanted) -> Result<Metas, Refusal> {
        let mut metas = Metas::new();
        self.metas(env, &mut metas)?;
        Ok(metas)
    }

    fn view(held: &mut Metas) -> &[Meta] {
        held
    }

    fn release(_held: Metas, _env: &mut Env<'_>, _ok: bool) -> Result<(), TaskError> {
        Ok(())
    }

    type OnGpu = Metas;

    fn acquire_on_gpu<'e>(&'e self, env: &mut Env<'e>) -> Result<Metas, Refusal> {
        self.acquire(env, Wanted::default())
    }

    fn view_on_gpu(held: &mut Metas) -> &[Meta] {
        held
    }
}
