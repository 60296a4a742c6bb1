//! Scopes that lend the caller's slices.

use std::sync::{Arc, Mutex};

use zellige_runtime::data::SliceMut;
use zellige_runtime::*;

use super::{rt, within_seconds};

#[test]
fn a_scope_whose_tasks_failed_says_so() {
    within_seconds(60, || {
        let rt = rt(2);
        let mut values = [0u32; 4];
        let error = rt
            .scope(|s| {
                let x = s.slice(&mut values, 4, 4)?.named("values");
                rt.task("half")
                    .operands((update(&x),))
                    .cpu(|(x,)| {
                        x.data[0] = 1;
                        Err::<(), _>("meant to")
                    })
                    .submit()?;
                Ok::<(), Error>(())
            })
            .unwrap_err();
        assert!(error.to_string().contains("meant to") && error.to_string().contains("values"), "{error}");
    });
}

#[test]
fn a_scope_in_a_body_whose_tasks_come_after_the_body_ends_with_an_error() {
    within_seconds(60, || {
        for workers in [1, 2] {
            let rt = rt(workers);
            let y = rt.register(5u32).named("y");
            let seen = Arc::new(Mutex::new(None));
            let (weak, inner, out) = (Arc::downgrade(&rt), y.clone(), Arc::clone(&seen));
            let body = move |(_,): (&mut u32,)| {
                let rt = weak.upgrade().unwrap();
                let mut values = [1u32; 4];
                let ended = rt.scope(|s| {
                    let x = s.slice(&mut values, 4, 4)?;
                    rt.task("first").operands((update(&x),)).cpu(|(x,)| x.data[1] = 7).submit()?;
                    let late = |(x, y): (SliceMut<'_, u32>, &u32)| x.data[0] = *y;
                    rt.task("late").operands((update(&x), read(&inner))).cpu(late).submit()?;
                    Ok::<(), Error>(())
                });
                *out.lock().unwrap() = Some((ended, values));
            };
            let holder = rt.task("holder").operands((update(&y),)).cpu(body).submit().unwrap();
            rt.wait(&holder).unwrap();
            let (ended, values) = seen.lock().unwrap().take().unwrap();
            let error = ended.unwrap_err();
            assert!(matches!(error, Error::Deadlock { .. }), "{error}");
            assert_eq!(values[0], 1, "nobody writes once the scope has ended");
            let error = rt.wait_all().unwrap_err().to_string();
            assert!(error.contains("late") && error.contains("scope"), "{error}");
            assert_eq!(rt.take(y).unwrap(), 5);
        }
    });
}

/// The other body of the cycle is the one whose wait ends.
#[test]
fn a_scope_ends_well_where_another_wait_can_end_instead() {
    within_seconds(60, || {
        let rt = rt(2);
        let (y, z) = (rt.register(5u32).named("y"), rt.register(1u32).named("z"));
        let seen = Arc::new(Mutex::new(None));
        let (weak, mine, other, out) = (Arc::downgrade(&rt), y.clone(), z.clone(), Arc::clone(&seen));
        let body = move |(_,): (&mut u32,)| {
            let rt = weak.upgrade().unwrap();
            let mut values = [1u32; 4];
            let ended = rt.scope(|s| {
                let x = s.slice(&mut values, 4, 4)?;
                let (weak, y) = (Arc::downgrade(&rt), mine.clone());
                // Holds the slice, and waits for the body that has lent it.
                let waits = move |(x, z): (SliceMut<'_, u32>, &mut u32)| {
                    *z = 2;
                    // If it runs on the other's stack, it waits for itself.
                    let error = weak.upgrade().unwrap().read(&y).map(drop);
                    let refused = matches!(error, Err(Error::Deadlock { .. } | Error::SelfWait { .. }));
                    x.data[0] = if refused { 9 } else { 8 };
                };
                rt.task("waits").operands((update(&x), update(&other))).cpu(waits).submit()?;
                Ok::<(), Error>(())
            });
            *out.lock().unwrap() = Some((ended, values));
        };
        let holder = rt.task("holder").operands((update(&y),)).cpu(body).submit().unwrap();
        rt.wait(&holder).unwrap();
        let (ended, values) = seen.lock().unwrap().take().unwrap();
        ended.unwrap();
        assert_eq!(values, [9, 1, 1, 1]);
        rt.wait_all().unwrap();
        assert_eq!(rt.take(z).unwrap(), 2);
    });
}

/// Lends a slice in the body of a batch.
struct Lends(Arc<Runtime>, Arc<Mutex<Vec<Error>>>);

impl Codelet for Lends {
    type Operands = (Update<u32>,);
    fn name(&self) -> &'static str {
        "lends"
    }
    fn batch(&self) -> usize {
        4
    }
    fn cpu(&self, (x,): (&mut u32,), _cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        let mut values = [0u32; 2];
        let ended = self.0.scope(|s| s.slice(&mut values, 2, 2).map(drop));
        self.1.lock().unwrap().extend(ended.err());
        *x += 1;
        Ok(())
    }
}

#[test]
fn a_scope_where_nothing_can_be_waited_for_is_refused_at_its_slice() {
    within_seconds(60, || {
        let rt = rt(1);
        let errors = Arc::default();
        let gate = rt.register(0u32);
        let values: Vec<_> = (0..4).map(|_| rt.register(0u32)).collect();
        let guard = rt.write(&gate).unwrap();
        rt.task("gate").operands((read(&gate),)).cpu(|_| ()).submit().unwrap();
        for value in &values {
            rt.submit(Lends(Arc::clone(&rt), Arc::clone(&errors)), (update(value),)).unwrap();
        }
        drop(guard);
        for value in &values {
            assert_eq!(*rt.read(value).unwrap(), 1);
        }
        for error in errors.lock().unwrap().iter() {
            assert!(matches!(error, Error::SelfWait { .. }), "{error}");
        }
        let device = Arc::new(Runtime::builder().workers(0).device(Emulated::new(1 << 16)).build().unwrap());
        let (x, weak) = (device.register(vec![0u32; 4]), Arc::downgrade(&device));
        let body = move |(x,): (&mut [u32],)| {
            let mut values = [0u32; 2];
            let ended = weak.upgrade().unwrap().scope(|s| s.slice(&mut values, 2, 2).map(drop));
            x[0] = u32::from(matches!(ended, Err(Error::SelfWait { .. })));
        };
        device.task("lends").operands((update(&x),)).cpu(body).submit().unwrap();
        assert_eq!(device.take(x).unwrap()[0], 1);
    });
}
