//! Data with strides: variables, vectors, matrices, blocks, tensors, and arrays of any dimension.
//!
//! All of them are read into and written from one form, [`Strided`], so that each operation and
//! each filter is written once.

mod members;
mod operations;
mod register;

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

#[cfg(feature = "mpi")]
pub(crate) use self::operations::append_packed;
use self::operations::copy_any_to_any;
pub(crate) use self::operations::{
    starpu_interface_block_ops, starpu_interface_matrix_ops, starpu_interface_tensor_ops,
    starpu_interface_variable_ops, starpu_interface_vector_ops,
};
use smallvec::SmallVec;

use super::*;
use crate::c::{calloc, free};
use crate::instance::errno::EINVAL;
use crate::memory::*;
use crate::util::starpu_hash_crc32c_be;

pub(crate) type Dims = SmallVec<[usize; 6]>;

/// Place of data, and the length of each dimension with the distance of its neighbours, both in
/// elements.
#[derive(Clone, Debug)]
pub(crate) struct Strided {
    pub ptr: usize,
    pub dev_handle: usize,
    pub offset: usize,
    pub elemsize: usize,
    pub n: Dims,
    pub ld: Dims,
}

impl Strided {
    /// Address of the first element, or 0 if nothing is allocated.
    pub fn address(&self) -> usize {
        match (self.ptr, self.dev_handle) {
            (0, 0) => 0,
            (0, dev_handle) => dev_handle + self.offset,
            (ptr, _) => ptr,
        }
    }

    pub fn is_allocated(&self) -> bool {
        self.ptr != 0 || self.dev_handle != 0
    }

    /// Moves the first element.
    pub fn advance(&mut self, elements: usize) {
        let bytes = elements * self.elemsize;
        if self.ptr != 0 {
            self.ptr += bytes;
        }
        if self.dev_handle != 0 {
            self.offset += bytes;
        }
    }

    /// Bytes without gaps.
    pub fn size(&self) -> usize {
        self.n.iter().product::<usize>() * self.elemsize
    }

    /// Bytes with the gaps of the last dimension where it is allocated.
    pub fn extent(&self) -> usize {
        match (self.n.last(), self.ld.last()) {
            (Some(n), Some(ld)) if self.is_allocated() => n * ld * self.elemsize,
            _ => self.size(),
        }
    }

    /// Distances of an array without gaps.
    pub fn packed(&self) -> Dims {
        let mut step = 1;
        self.n
            .iter()
            .map(|n| {
                let ld = step;
                step *= n;
                ld
            })
            .collect()
    }
}

/// An interface with strides.
pub(crate) trait Dense: Copy + 'static {
    const ID: starpu_data_interface_id;
    /// Name of the kind in messages.
    const KIND: &'static str;
    const NAME: &'static CStr;
    /// The letter that descriptions begin with.
    const LETTER: char;
    /// Functions that copy data of this kind.
    const COPIES: &'static starpu_data_copy_methods = &starpu_data_copy_methods {
        any_to_any: Some(copy_any_to_any::<Self>),
        ..starpu_data_copy_methods::NONE
    };

    fn id(&self) -> starpu_data_interface_id;
    fn read(&self) -> Strided;
    /// Becomes what `form` says; the place and the distances only where that is allocated.
    fn write(&mut self, form: &Strided);
    fn place(&mut self) -> [&mut usize; 3];
    fn set_ld(&mut self, ld: &[usize]);
    /// Bytes that an allocation of its own takes.
    fn allocsize(&self) -> usize {
        self.read().size()
    }
    /// Becomes a copy of `other` that shares nothing with it.
    fn adopt(&mut self, other: &Self) {
        *self = *other;
    }
    /// Frees what `adopt` and `write` allocated beside the data.
    fn discard(&mut self) {}
}

/// Bytes to allocate for data of `size` bytes. Filters of programs may leave the room that they
/// want open, or at nothing.
fn whole(allocsize: usize, size: usize) -> usize {
    if allocsize == usize::MAX { size } else { allocsize.max(size) }
}

macro_rules! dense {
    ($type:ident, $id:ident, $kind:literal, $name:literal, $letter:literal, [$($n:ident)*], [$($ld:ident)*]
        $(, $allocsize:ident)?) => {
        impl Dense for $type {
            const ID: starpu_data_interface_id = $id;
            const KIND: &'static str = $kind;
            const NAME: &'static CStr = $name;
            const LETTER: char = $letter;

            fn id(&self) -> starpu_data_interface_id {
                self.id
            }

            fn read(&self) -> Strided {
                // The first dimension has no gaps.
                #[allow(unused_mut)]
                let mut ld = Dims::new();
                let n: Dims = [$(self.$n),*].into_iter().collect();
                if !n.is_empty() {
                    ld.push(1);
                }
                $(ld.push(self.$ld);)*
                Strided {
                    ptr: self.ptr,
                    dev_handle: self.dev_handle,
                    offset: self.offset,
                    elemsize: self.elemsize,
                    n,
                    ld,
                }
            }

            fn write(&mut self, form: &Strided) {
                self.id = $id;
                self.elemsize = form.elemsize;
                let [$($n),*] = form.n[..] else { misuse(concat!("a filter for a ", $kind), "other dimensions") };
                $(self.$n = $n;)*
                if form.is_allocated() {
                    (self.ptr, self.dev_handle, self.offset) = (form.ptr, form.dev_handle, form.offset);
                    self.set_ld(&form.ld);
                }
                $(self.$allocsize = form.extent();)?
            }

            fn place(&mut self) -> [&mut usize; 3] {
                [&mut self.ptr, &mut self.dev_handle, &mut self.offset]
            }

            #[allow(unused_mut, unused_variables)]
            fn set_ld(&mut self, ld: &[usize]) {
                let mut of = ld.iter().skip(1);
                $(self.$ld = of.next().copied().unwrap_or(0);)*
            }

            $(
                fn allocsize(&self) -> usize {
                    whole(self.$allocsize, self.read().size())
                }
            )?
        }
    };
}

dense!(
    starpu_variable_interface,
    STARPU_VARIABLE_INTERFACE_ID,
    "variable",
    c"STARPU_VARIABLE_INTERFACE",
    'v',
    [],
    []
);
dense!(
    starpu_vector_interface,
    STARPU_VECTOR_INTERFACE_ID,
    "vector",
    c"STARPU_VECTOR_INTERFACE",
    'V',
    [nx],
    [],
    allocsize
);
dense!(
    starpu_matrix_interface,
    STARPU_MATRIX_INTERFACE_ID,
    "matrix",
    c"STARPU_MATRIX_INTERFACE",
    'M',
    [nx ny],
    [ld],
    allocsize
);
dense!(
    starpu_block_interface,
    STARPU_BLOCK_INTERFACE_ID,
    "block",
    c"STARPU_BLOCK_INTERFACE",
    'B',
    [nx ny nz],
    [ldy ldz]
);
dense!(
    starpu_tensor_interface,
    STARPU_TENSOR_INTERFACE_ID,
    "tensor",
    c"STARPU_TENSOR_INTERFACE",
    'T',
    [nx ny nz nt],
    [ldy ldz ldt]
);

/// A list of C of `n` numbers, all `value`s of the iterator.
fn list(values: impl ExactSizeIterator<Item = usize>) -> *mut usize {
    let n = values.len();
    // SAFETY: any number may be asked for; one more keeps the list of no dimensions from being
    // null.
    let list = unsafe { calloc(n + 1, size_of::<usize>()) }.cast::<usize>();
    if list.is_null() {
        misuse("starpu_ndim_interface", &format!("no memory for {n} dimensions"));
    }
    for (i, value) in values.enumerate() {
        // SAFETY: the list has `n + 1` entries.
        unsafe { *list.add(i) = value };
    }
    list
}

/// # Safety
/// `list` is null or has `n` entries.
unsafe fn dims(list: *const usize, n: usize) -> Dims {
    if list.is_null() {
        return std::iter::repeat_n(0, n).collect();
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(list, n) }.iter().copied().collect()
}

impl Dense for starpu_ndim_interface {
    const ID: starpu_data_interface_id = STARPU_NDIM_INTERFACE_ID;
    const KIND: &'static str = "array";
    const NAME: &'static CStr = c"STARPU_NDIM_INTERFACE";
    const LETTER: char = 'N';

    fn id(&self) -> starpu_data_interface_id {
        self.id
    }

    fn read(&self) -> Strided {
        Strided {
            ptr: self.ptr,
            dev_handle: self.dev_handle,
            offset: self.offset,
            elemsize: self.elemsize,
            // SAFETY: both lists of an array have an entry for each dimension.
            n: unsafe { dims(self.nn, self.ndim) },
            // SAFETY: as above.
            ld: unsafe { dims(self.ldn, self.ndim) },
        }
    }

    fn write(&mut self, form: &Strided) {
        // Filters write into the same part again when its parent has moved.
        if self.id == STARPU_NDIM_INTERFACE_ID {
            self.discard();
        }
        self.id = STARPU_NDIM_INTERFACE_ID;
        self.ndim = form.n.len();
        self.elemsize = form.elemsize;
        self.allocsize = form.extent();
        self.nn = list(form.n.iter().copied());
        if form.is_allocated() {
            (self.ptr, self.dev_handle, self.offset) = (form.ptr, form.dev_handle, form.offset);
            self.ldn = list(form.ld.iter().copied());
        } else {
            self.ldn = list(std::iter::repeat_n(0, form.n.len()));
        }
    }

    fn place(&mut self) -> [&mut usize; 3] {
        [&mut self.ptr, &mut self.dev_handle, &mut self.offset]
    }

    fn set_ld(&mut self, ld: &[usize]) {
        for (i, ld) in ld.iter().enumerate().take(self.ndim) {
            if !self.ldn.is_null() {
                // SAFETY: the list has an entry for each dimension.
                unsafe { *self.ldn.add(i) = *ld };
            }
        }
    }

    fn allocsize(&self) -> usize {
        whole(self.allocsize, self.read().size())
    }

    fn adopt(&mut self, other: &Self) {
        *self = *other;
        let form = other.read();
        self.nn = list(form.n.iter().copied());
        self.ldn = list(form.ld.iter().copied());
    }

    fn discard(&mut self) {
        // SAFETY: both lists are null or from `list`, and are forgotten here.
        unsafe {
            free(std::mem::replace(&mut self.nn, std::ptr::null_mut()).cast());
            free(std::mem::replace(&mut self.ldn, std::ptr::null_mut()).cast());
        }
    }
}
