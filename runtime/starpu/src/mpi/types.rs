//! Bytes of data in messages: by a datatype of the program, or by the packing of the interface.

use std::collections::HashMap;
use std::ffi::{c_int, c_uint, c_void};
use std::ptr;

use ::mpi::ffi::{
    MPI_Comm, MPI_Datatype, MPI_Pack, MPI_Pack_size, MPI_Type_free, MPI_Unpack, RSMPI_COMM_WORLD,
};
use parking_lot::Mutex;

use super::owners::with_owned;
use crate::data::{Data, data, pointer_of};
use crate::instance::complain;
use crate::interface::append_packed;
use crate::memory::{starpu_free_on_node_flags, starpu_malloc_on_node_flags};
use crate::types::*;

type Allocate = unsafe extern "C" fn(starpu_data_handle_t, *mut MPI_Datatype) -> c_int;
type AllocateOnNode = unsafe extern "C" fn(starpu_data_handle_t, c_uint, *mut MPI_Datatype) -> c_int;
type Free = unsafe extern "C" fn(*mut MPI_Datatype);

/// Functions of the program that make and free the datatype of data.
#[derive(Clone, Copy, Default)]
pub struct Datatype {
    allocate: Option<Allocate>,
    allocate_on_node: Option<AllocateOnNode>,
    free: Option<Free>,
}

static OF_INTERFACE: Mutex<Option<HashMap<c_int, Datatype>>> = Mutex::new(None);

/// A datatype of MPI for as long as it is needed.
struct MadeDatatype {
    datatype: MPI_Datatype,
    free: Option<Free>,
}

impl Drop for MadeDatatype {
    fn drop(&mut self) {
        // SAFETY: made by the function that belongs to this one.
        unsafe {
            match self.free {
                Some(free) => free(&raw mut self.datatype),
                None => {
                    MPI_Type_free(&raw mut self.datatype);
                }
            }
        }
    }
}

/// Makes the datatype that the program has registered for data, if it makes one.
unsafe fn registered(of: &Data) -> Option<MadeDatatype> {
    let own = with_owned(of.handle(), |owned| owned.datatype);
    let kind = (*of.ops).interfaceid as c_int;
    let functions = own.or_else(|| OF_INTERFACE.lock().as_ref()?.get(&kind).copied())?;
    let mut datatype = std::mem::zeroed();
    let result = match (functions.allocate, functions.allocate_on_node) {
        (Some(allocate), _) => allocate(of.handle(), &raw mut datatype),
        (None, Some(allocate)) => allocate(of.handle(), 0, &raw mut datatype),
        (None, None) => return None,
    };
    (result == 0).then(|| MadeDatatype { datatype, free: functions.free })
}

/// Returns a message with a head and the bytes of data.
pub unsafe fn packed(of: &Data, head: &[u8]) -> Vec<u8> {
    of.value_for(|| STARPU_R);
    let size = (*of.ops).get_size.map_or(0, |size| size(of.handle()));
    let mut message = zellige_mpi::message_buffer(head.len() + size);
    message.extend_from_slice(head);
    if let Some(made) = registered(of) {
        let (mut size, mut at) = (0, 0);
        MPI_Pack_size(1, made.datatype, RSMPI_COMM_WORLD, &raw mut size);
        let begin = message.len();
        message.resize(begin + size as usize, 0);
        let to = message[begin..].as_mut_ptr().cast();
        MPI_Pack(pointer_of(of, 0), 1, made.datatype, to, size, &raw mut at, RSMPI_COMM_WORLD);
        message.truncate(begin + at as usize);
        return message;
    }
    if append_packed(of.handle(), (*of.ops).interfaceid, &mut message) {
        return message;
    }
    let Some(pack) = (*of.ops).pack_data else {
        complain(format_args!(
            "{} cannot be sent: its interface has no pack_data, and no datatype is registered",
            of.token_name()
        ));
        return message;
    };
    let (mut block, mut count) = (ptr::null_mut(), 0);
    if pack(of.handle(), 0, &raw mut block, &raw mut count) != 0 || count < 0 {
        complain(format_args!("{} cannot be sent: pack_data failed", of.token_name()));
        return message;
    }
    if block.is_null() {
        // There is nothing in it.
        return message;
    }
    message.extend_from_slice(std::slice::from_raw_parts(block.cast::<u8>(), count as usize));
    starpu_free_on_node_flags(0, block as usize, count as usize, 0);
    message
}

/// Reads the bytes of a message into data.
pub unsafe fn unpack(of: &Data, bytes: &[u8]) -> Result<(), String> {
    of.value();
    if let Some(made) = registered(of) {
        let (mut size, mut at) = (0, 0);
        MPI_Pack_size(1, made.datatype, RSMPI_COMM_WORLD, &raw mut size);
        if bytes.len() > size as usize {
            return Err(format!("{} bytes were sent, and its datatype has at most {size}", bytes.len()));
        }
        let from: *const c_void = bytes.as_ptr().cast();
        let comm: MPI_Comm = RSMPI_COMM_WORLD;
        MPI_Unpack(from, bytes.len() as c_int, &raw mut at, pointer_of(of, 0), 1, made.datatype, comm);
        return Ok(());
    }
    let ops = &*of.ops;
    let result = if let Some(peek) = ops.peek_data {
        peek(of.handle(), 0, bytes.as_ptr().cast_mut().cast(), bytes.len())
    } else if let Some(unpack) = ops.unpack_data {
        // The function frees the block.
        let block = starpu_malloc_on_node_flags(0, bytes.len(), 0) as *mut u8;
        if block.is_null() {
            return Err(format!("there is no memory for {} bytes", bytes.len()));
        }
        ptr::copy_nonoverlapping(bytes.as_ptr(), block, bytes.len());
        unpack(of.handle(), 0, block.cast(), bytes.len())
    } else {
        return Err("its interface has no unpack_data, and no datatype is registered".into());
    };
    if result == 0 {
        Ok(())
    } else {
        Err(format!("{} bytes were sent, which its interface does not take", bytes.len()))
    }
}

fn set_for_interface(kind: c_int, functions: Datatype) -> c_int {
    OF_INTERFACE.lock().get_or_insert_default().insert(kind, functions);
    0
}

fn set_for(handle: starpu_data_handle_t, functions: Option<Datatype>) -> c_int {
    // SAFETY: the program's handle.
    unsafe { data(handle).mpi.set(|owned| owned.datatype = functions) };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_datatype_register(
    handle: starpu_data_handle_t,
    allocate: Option<Allocate>,
    free: Option<Free>,
) -> c_int {
    set_for(handle, Some(Datatype { allocate, allocate_on_node: None, free }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_datatype_node_register(
    handle: starpu_data_handle_t,
    allocate_on_node: Option<AllocateOnNode>,
    free: Option<Free>,
) -> c_int {
    set_for(handle, Some(Datatype { allocate: None, allocate_on_node, free }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_datatype_unregister(handle: starpu_data_handle_t) -> c_int {
    set_for(handle, None)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_interface_datatype_register(
    kind: c_int,
    allocate: Option<Allocate>,
    free: Option<Free>,
) -> c_int {
    set_for_interface(kind, Datatype { allocate, allocate_on_node: None, free })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_interface_datatype_node_register(
    kind: c_int,
    allocate_on_node: Option<AllocateOnNode>,
    free: Option<Free>,
) -> c_int {
    set_for_interface(kind, Datatype { allocate: None, allocate_on_node, free })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_interface_datatype_unregister(kind: c_int) -> c_int {
    if let Some(all) = &mut *OF_INTERFACE.lock() {
        all.remove(&kind);
    }
    0
}
