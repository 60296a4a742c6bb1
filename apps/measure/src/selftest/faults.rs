//! Injected faults: a body that requests more memory than there is, and a kernel that uses memory
//! that does not exist.
//!
//! The only module of this crate with `unsafe`.
#![allow(unsafe_code)]

use zellige_dense::{Error, Tile};
use zellige_gpu::{Address, Element, Matrix};
use zellige_kernels::cuda::{Loaded, SOURCES, fill};
use zellige_runtime::{Runtime, Submit, update};

use super::probe::Probe;

/// Value of the entries of the tile.
const VALUE: f32 = 2.5;

/// A probe that fills a tile on a CPU, and writes to invalid memory on a GPU.
const FAULTY: Probe = Probe {
    name: "faulty",
    on_host: |tile| {
        tile.as_mut_slice()?.fill(VALUE);
        Ok(())
    },
    on_gpu: |gpu| {
        // The first page of no GPU is anybody's.
        let nowhere = Matrix { at: Address(512), ld: 64, element: Element::F32 };
        let (kernels, launch) =
            (Loaded::shared(gpu.driver(), gpu.gpu(), SOURCES)?, fill((64, 64), VALUE.into(), nowhere)?);
        // SAFETY: the launch names memory that no GPU has: the GPU refuses the access and is lost
        // to the process, which is what is checked.
        unsafe { Ok(kernels.launch(&**gpu.driver(), gpu.stream(), &launch)?) }
    },
};

/// Asks for more working space than any GPU has.
const GREEDY: Probe =
    Probe { name: "greedy", on_host: |_| Ok(()), on_gpu: |gpu| Ok(gpu.scratch(1 << 46).map(drop)?) };
/// Asks for a little.
const MODEST: Probe =
    Probe { name: "modest", on_host: |_| Ok(()), on_gpu: |gpu| Ok(gpu.scratch(1 << 20).map(drop)?) };

/// Makes a GPU fault, and waits until a CPU worker has done its work. Returns the reason why the
/// device was retired, or `None` if none was, or if a value is wrong.
///
/// The GPU is lost to the whole process afterwards: call this in a process that ends soon. The
/// runtime needs a CPU worker and a GPU.
///
/// # Errors
/// [`Error::Runtime`] if the task fails instead.
pub fn faulty_kernel(rt: &Runtime) -> Result<Option<String>, Error> {
    let mut right = true;
    // Until a GPU has taken one: which worker does is the policy's choice.
    for _ in 0..1000 {
        let tile = rt.register(Tile::<f32>::zeros(64, 64));
        rt.submit(FAULTY, (update(&tile),))?;
        right &= rt.read(&tile)?.as_slice()?.iter().all(|x| *x == VALUE);
        if let Some(failure) = rt.memory().into_iter().find_map(|node| node.failure) {
            return Ok(right.then_some(failure));
        }
    }
    Ok(None)
}

/// Runs a body that requests more memory than its GPU has, and then one that requests a little.
/// Returns the error of the first one, or `None` if it got the memory, or if the second one failed.
/// The runtime needs a GPU and no CPU worker.
///
/// # Errors
/// [`Error::Runtime`] for a task that is refused.
pub fn too_much_memory(rt: &Runtime) -> Result<Option<String>, Error> {
    let ask = |probe: Probe| -> Result<Option<String>, Error> {
        let tile = rt.register(Tile::<f32>::zeros(1, 1));
        let task = rt.submit(probe, (update(&tile),))?;
        Ok(rt.wait(&task).err().map(|error| error.to_string()))
    };
    let (refused, after) = (ask(GREEDY)?, ask(MODEST)?);
    Ok(refused.filter(|message| message.contains("no room") && after.is_none()))
}
