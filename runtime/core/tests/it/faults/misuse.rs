//! Wrong use is refused with a specific error at its origin.

use std::sync::{Arc, Mutex};

use zellige_runtime::*;

use super::{rt, within_seconds};

#[test]
fn one_handle_twice_with_a_write_is_refused_at_submission() {
    let rt = rt();
    let x = rt.register(1u8).named("x");
    let error = rt.task("twice").operands((read(&x), update(&x))).cpu(|(_, _)| ()).submit().unwrap_err();
    assert!(error.to_string().starts_with("task twice names x twice"), "{error}");
    rt.task("reads").operands((read(&x), read(&x))).cpu(|(_, _)| ()).submit().unwrap();
    assert_eq!(rt.take(x).unwrap(), 1);
}

#[test]
fn reading_what_nobody_writes_is_refused() {
    let rt = rt();
    let x = rt.register_empty::<Vec<f32>>().named("x");
    let error = rt.task("early").operands((read(&x),)).cpu(|(_,)| ()).submit().unwrap_err();
    assert!(matches!(error, Error::Unwritten { .. }), "{error}");
    rt.task("fill").operands((write(&x),)).cpu(|(mut x,)| x.put(vec![1.0, 2.0])).submit().unwrap();
    assert_eq!(*rt.read(&x).unwrap(), [1.0, 2.0]);
    let r = rt.register(0u32).named("r");
    let error = rt.task("sum").operands((reduce(&r),)).cpu(|(_,)| ()).submit().unwrap_err();
    assert!(error.to_string().contains("with_reduction"), "{error}");
}

#[test]
fn wrong_configurations_are_refused() {
    assert!(Runtime::builder().workers(0).build().is_err());
    let error = Runtime::builder().policy("fifo").build().unwrap_err();
    assert!(error.to_string().contains("take one of lws, prio, eager"), "{error}");
}

#[test]
fn two_runtimes_do_not_mix() {
    within_seconds(20, || {
        let (a, b) = (rt(), rt());
        let x = a.register(1u8).named("x");
        let task = a.task("t").operands((update(&x),)).cpu(|(x,)| *x += 1).submit().unwrap();
        assert!(matches!(
            b.task("u").operands((read(&x),)).cpu(|(_,)| ()).submit(),
            Err(Error::Foreign { .. })
        ));
        assert!(matches!(
            b.task("u").operands(()).cpu(|()| ()).after(&task).submit(),
            Err(Error::Foreign { .. })
        ));
        assert!(matches!(b.wait(&task), Err(Error::Foreign { .. })));
        assert!(matches!(b.take(x.clone()), Err(Error::Foreign { .. })));
        assert_eq!(a.take(x).unwrap(), 2);
    });
}

#[test]
fn taken_and_released_handles_are_gone() {
    let rt = rt();
    let x = rt.register(1u8).named("x");
    let also_x = x.clone();
    assert_eq!(rt.take(x).unwrap(), 1);
    let error = rt.task("late").operands((read(&also_x),)).cpu(|(_,)| ()).submit().unwrap_err();
    assert_eq!(error.to_string(), "x was taken, released or joined: task late came too late");
    assert!(matches!(rt.take(also_x), Err(Error::Gone { .. })));
    let y = rt.register(1u8);
    rt.release(y.clone());
    assert!(matches!(rt.read(&y), Err(Error::Gone { .. })));
}

#[test]
fn waiting_for_oneself_is_an_error() {
    within_seconds(20, || {
        let rt = Arc::new(rt());
        let x = rt.register(1u8).named("x");
        let seen = Arc::new(Mutex::new(None));
        let (weak, handle, out) = (Arc::downgrade(&rt), x.clone(), Arc::clone(&seen));
        rt.task("self")
            .operands((update(&x),))
            .cpu(move |(_,)| {
                let rt = weak.upgrade().unwrap();
                let errors = [rt.read(&handle).err(), rt.wait_all().err()];
                *out.lock().unwrap() = Some(errors);
            })
            .submit()
            .unwrap();
        rt.wait_all().unwrap();
        for error in seen.lock().unwrap().take().unwrap() {
            assert!(matches!(error, Some(Error::SelfWait { .. })), "{error:?}");
        }
    });
}

#[test]
fn waiting_for_all_inside_a_replay_is_an_error() {
    within_seconds(20, || {
        let rt = Arc::new(rt());
        let x = rt.register(0u32).named("x");
        let weak = Arc::downgrade(&rt);
        let (handle, again) = (x.clone(), weak.clone());
        let graph = rt
            .record(|g| {
                g.task("t")
                    .operands((update(&x),))
                    .cpu(move |(x,)| {
                        let rt = again.upgrade().unwrap();
                        assert!(matches!(rt.wait_all(), Err(Error::SelfWait { .. })));
                        assert!(matches!(rt.read(&handle).err(), Some(Error::SelfWait { .. })));
                        *x = 5;
                    })
                    .submit()
                    .map(drop)
            })
            .unwrap();
        let replay = rt.replay(&Bindings::recorded(&graph)).unwrap();
        rt.wait(&replay).unwrap();
        assert_eq!(rt.take(x).unwrap(), 5);
    });
}

#[test]
fn a_scoped_slice_does_not_leave_its_handle() {
    let rt = rt();
    let mut values = vec![1u32; 4];
    rt.scope(|s| {
        let x = s.slice(&mut values, 4, 4).unwrap();
        assert!(matches!(rt.take(x.clone()), Err(Error::Borrowed { .. })));
        assert!(matches!(rt.write(&x).err(), Some(Error::Borrowed { .. })));
        assert!(matches!(rt.read(&x).err(), Some(Error::Borrowed { .. })));
        rt.task("add").operands((update(&x),)).cpu(|(x,)| x.data[0] = 9).submit().map(drop)
    })
    .unwrap();
    assert_eq!(values, [9, 1, 1, 1]);
}
