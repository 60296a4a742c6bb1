//! What goes wrong on purpose: a body that wants more memory than there is, a kernel that uses memory which is not there.

use zellige_gpu::{Address, Element, Matrix};
use zellige_kernels::cuda::fill;
use zellige_runtime::{
    Codelet, Cpu, Cuda, Operands, Runtime, Submit, TaskContext, TaskError, Update, update,
};

use crate::error::Error;
use crate::gpu::Ops;
use crate::tile::Tile;

/// What the tile is filled with.
const VALUE: f32 = 2.5;

/// On a CPU it fills a tile; on a GPU it writes where nothing is.
struct Faulty;

impl Codelet for Faulty {
    type Operands = (Update<Tile<f32>>,);

    fn name(&self) -> &'static str {
        "faulty"
    }

    fn cpu(
        &self,
        (tile,): <Self::Operands as Operands>::Views<'_, Cpu>,
        _cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        tile.as_mut_slice()?.fill(VALUE);
        Ok(())
    }

    fn has_cuda(&self) -> bool {
        true
    }

    fn cuda(
        &self,
        _views: <Self::Operands as Operands>::Views<'_, Cuda>,
        cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        // The first page of no GPU is anybody's.
        let nowhere = Matrix { at: Address(512), ld: 64, element: Element::F32 };
        Ok(Ops::new(cx.gpu())?.launch(fill((64, 64), VALUE.into(), nowhere))?)
    }
}

/// Has a GPU fault, and waits until a CPU worker has done its work: why the device was retired, or `None` if none was, or a value is wrong.
///
/// The GPU is lost to the whole process afterwards: do this in one that ends soon. The runtime needs a CPU worker and a GPU.
///
/// # Errors
/// [`Error::Runtime`] where the task fails instead.
pub fn faulty_kernel(rt: &Runtime) -> Result<Option<String>, Error> {
    let mut right = true;
    // Until a GPU has taken one: which worker does is the policy's choice.
    for _ in 0..1000 {
        let tile = rt.register(Tile::<f32>::zeros(64, 64));
        rt.submit(Faulty, (update(&tile),))?;
        right &= rt.read(&tile)?.as_slice()?.iter().all(|x| *x == VALUE);
        if let Some(failure) = rt.memory().into_iter().find_map(|node| node.failure) {
            return Ok(right.then_some(failure));
        }
    }
    Ok(None)
}

/// Asks for so many bytes of working space on a GPU.
struct Hungry(u64);

impl Codelet for Hungry {
    type Operands = (Update<Tile<f32>>,);

    fn name(&self) -> &'static str {
        "hungry"
    }

    fn cpu(
        &self,
        _views: <Self::Operands as Operands>::Views<'_, Cpu>,
        _cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        Ok(())
    }

    fn has_cuda(&self) -> bool {
        true
    }

    fn cuda(
        &self,
        _views: <Self::Operands as Operands>::Views<'_, Cuda>,
        cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        cx.gpu().scratch(self.0)?;
        Ok(())
    }
}

/// Has a body ask for more memory than its GPU has, and then one for a little: what the first was told, or `None` if it was given that
/// much, or if the second was not. The runtime needs a GPU and no CPU worker.
///
/// # Errors
/// [`Error::Runtime`] for a task that is refused.
pub fn too_much_memory(rt: &Runtime) -> Result<Option<String>, Error> {
    let ask = |bytes: u64| -> Result<Result<(), zellige_runtime::Error>, Error> {
        let tile = rt.register(Tile::<f32>::zeros(1, 1));
        Ok(rt.wait(&rt.submit(Hungry(bytes), (update(&tile),))?))
    };
    let refused = ask(1 << 46)?.err().map(|error| error.to_string());
    Ok(refused.filter(|told| told.contains("no room")).filter(|_| matches!(ask(1 << 20), Ok(Ok(())))))
}
