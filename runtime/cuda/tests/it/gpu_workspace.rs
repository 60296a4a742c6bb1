//! Bodies on GPUs that do not find working space at once.

use std::sync::Arc;

use zellige_cuda::{CUDA, Gpu, GpuTask};
use zellige_gpu::Place;
use zellige_gpu::mock::{Fault, Mock, MockBuilder};
use zellige_runtime::codelet::{DeviceTable, OnDevice};
use zellige_runtime::{
    Codelet, Cpu, Handle, Operands, Runtime, Submit, TaskContext, TaskError, Update, update,
};

type Views<'v, C, K> = <<C as Codelet>::Operands as Operands>::Views<'v, K>;

const KIB: usize = 1 << 10;

/// Copies a vector to working space of this many bytes, clears it, and copies it back: a body that
/// runs twice, or that gets its space only after it has cleared the vector, leaves zeros.
struct Through(usize);

impl Codelet for Through {
    type Operands = (Update<Vec<f64>>,);

    fn name(&self) -> &'static str {
        "through"
    }

    fn cpu(&self, _views: Views<'_, Self, Cpu>, _cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        Ok(())
    }

    fn on_devices(&self, table: &mut DeviceTable<Self>) {
        table.add(*CUDA, Self::cuda);
    }
}

impl Through {
    fn cuda(&self, (y,): Views<'_, Self, OnDevice>, cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        let (gpu, (y, bytes)) = (cx.gpu(), y.part(0));
        let half = gpu.scratch(bytes)?;
        let [y, half] = [y, half.at].map(|at| Place::Gpu(gpu.gpu(), at));
        // SAFETY: the bytes are the operand's and working space of the body's.
        unsafe {
            gpu.driver().copy(gpu.stream(), half, y, bytes)?;
            let Place::Gpu(_, at) = y else { unreachable!() };
            gpu.driver().zero(gpu.stream(), at, bytes)?;
            // The rest of it is requested in the middle.
            gpu.scratch((self.0 as u64).saturating_sub(bytes))?;
            gpu.driver().copy(gpu.stream(), y, half, bytes)?;
        }
        Ok(())
    }
}

fn mock(build: impl FnOnce(MockBuilder) -> MockBuilder) -> Arc<Mock> {
    Arc::new(build(Mock::builder()).build())
}

fn on(driver: &Arc<Mock>, memory: usize) -> Runtime {
    let gpu = Gpu::new(driver.clone(), 0).memory(memory as u64);
    Runtime::builder().workers(0).device(gpu).policy("eager").build().unwrap()
}

/// Creates vectors of this many bytes, each with other numbers.
fn vectors(rt: &Runtime, count: usize, bytes: usize) -> Vec<Handle<Vec<f64>>> {
    (0..count).map(|i| rt.register(vec![1.0 + i as f64; bytes / 8])).collect()
}

fn check(rt: Runtime, mock: &Mock, vectors: Vec<Handle<Vec<f64>>>) {
    for (i, vector) in vectors.into_iter().enumerate() {
        let value = rt.take(vector).unwrap();
        assert!(value.iter().all(|v| *v == 1.0 + i as f64), "{i}: {:?}", &value[..2]);
    }
    drop(rt);
    assert_eq!((mock.violations(), mock.leaks()), (vec![], vec![]));
}

/// Several streams, and working space for one body at a time.
#[test]
fn a_body_waits_for_the_ends_of_others() {
    let mock = mock(|builder| builder.memory(100 * KIB as u64));
    let rt = on(&mock, 20 * KIB);
    let vectors = vectors(&rt, 10, KIB);
    for vector in vectors.iter().cycle().take(60) {
        rt.submit(Through(60 * KIB), (update(vector),)).unwrap();
    }
    check(rt, &mock, vectors);
}

#[test]
fn values_that_nobody_uses_make_room_for_working_space() {
    let mock = mock(|builder| builder.memory(128 * KIB as u64));
    let rt = on(&mock, 128 * KIB);
    let vectors = vectors(&rt, 16, 8 * KIB);
    // All of them are present and leave no room.
    vectors.iter().for_each(|vector| rt.prefetch(vector, 1).unwrap());
    for vector in vectors.iter().cycle().take(48) {
        rt.submit(Through(40 * KIB), (update(vector),)).unwrap();
    }
    rt.wait_all().unwrap();
    assert!(rt.memory()[1].evictions > 0, "{:?}", rt.memory()[1]);
    check(rt, &mock, vectors);
}

#[test]
fn an_allocation_that_finds_no_room_once_is_asked_again() {
    for nth in 1..25 {
        let mock = mock(|builder| builder);
        let rt = on(&mock, 64 * KIB);
        mock.inject(0, Fault::Allocation(nth)).unwrap();
        let vectors = vectors(&rt, 3, KIB);
        for vector in vectors.iter().cycle().take(9) {
            rt.submit(Through(2 * KIB), (update(vector),)).unwrap();
        }
        check(rt, &mock, vectors);
    }
}

#[test]
fn what_never_fits_fails_and_says_what_takes_the_memory() {
    let mock = mock(|builder| builder.memory(64 * KIB as u64));
    let rt = on(&mock, 32 * KIB);
    let vectors = vectors(&rt, 2, 8 * KIB);
    rt.submit(Through(100 * KIB), (update(&vectors[0]),)).unwrap();
    rt.submit(Through(16 * KIB), (update(&vectors[1]),)).unwrap();
    let error = rt.read(&vectors[0]).map(drop).unwrap_err().to_string();
    for words in [
        "through",
        "no room for 94208 bytes",
        "of its 65536 bytes are free",
        "of at most 32768",
        "Gpu::memory",
    ] {
        assert!(error.contains(words), "{words}: {error}");
    }
    assert_eq!(rt.read(&vectors[1]).unwrap()[0], 2.0);
    drop(vectors);
    drop(rt);
    assert_eq!((mock.violations(), mock.leaks()), (vec![], vec![]));
}
