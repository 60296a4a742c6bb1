//! Buffers as values of handles.

use super::{Data, Meta, Portability};
use crate::buffer::{Buffer, Element};

impl<T: Element> Data for Buffer<T> {
    type Ref<'v> = &'v [T];
    type Mut<'v> = &'v mut [T];

    fn view(&self) -> &[T] {
        self
    }

    fn view_mut(&mut self) -> &mut [T] {
        self
    }

    fn meta(&self) -> Meta {
        Meta { bytes: size_of_val(&**self), ..Meta::default() }
    }

    fn portability() -> Option<Portability<Self>> {
        Some(Portability::of())
    }
}
