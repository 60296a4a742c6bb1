//! Some rows of a sparse matrix, as data of tasks.

use std::ops::Range;

use zellige_runtime::{Data, Element, Meta, Portability, Portable};

/// Some rows of a matrix, with numbers of type `V`.
#[derive(Debug)]
pub struct Rows<V> {
    starts: Vec<u64>,
    column: Vec<u32>,
    value: Vec<V>,
}

impl<V: Element> Rows<V> {
    /// Columns and numbers of one row after the other.
    pub fn of<'a>(rows: impl Iterator<Item = (&'a [u32], &'a [V])>) -> Rows<V> {
        let mut all = Rows { starts: vec![0], column: Vec::new(), value: Vec::new() };
        for (column, value) in rows {
            all.column.extend(column);
            all.value.extend(value);
            all.starts.push(all.value.len() as u64);
        }
        all
    }

    /// Columns and numbers of row `i`.
    pub fn row(&self, i: usize) -> (&[u32], &[V]) {
        let row = self.starts[i] as usize..self.starts[i + 1] as usize;
        (&self.column[row.clone()], &self.value[row])
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// The columns that have elements, and those between.
    pub fn columns(&self) -> Range<usize> {
        let first = self.column.iter().min().map_or(0, |&j| j as usize);
        first..self.column.iter().max().map_or(0, |&j| j as usize + 1)
    }
}

impl<V: Element> Data for Rows<V> {
    type Ref<'v> = &'v Rows<V>;
    type Mut<'v> = &'v mut Rows<V>;

    fn view(&self) -> &Rows<V> {
        self
    }

    fn view_mut(&mut self) -> &mut Rows<V> {
        self
    }

    fn meta(&self) -> Meta {
        Meta { bytes: self.parts().iter().map(|part| part.len()).sum(), ..Meta::default() }
    }

    fn portability() -> Option<Portability<Self>> {
        Some(Portability::of())
    }
}

impl<V: Element> Portable for Rows<V> {
    /// Rows and elements.
    type Header = [usize; 2];

    fn header(&self) -> [usize; 2] {
        [self.len(), self.value.len()]
    }

    fn blank(&[rows, elements]: &[usize; 2]) -> Self {
        Rows { starts: vec![0; rows + 1], column: vec![0; elements], value: vec![V::zeroed(); elements] }
    }

    fn parts(&self) -> Vec<&[u8]> {
        vec![
            bytemuck::cast_slice(&self.starts),
            bytemuck::cast_slice(&self.column),
            bytemuck::cast_slice(&self.value),
        ]
    }

    fn parts_mut(&mut self) -> Vec<&mut [u8]> {
        vec![
            bytemuck::cast_slice_mut(&mut self.starts),
            bytemuck::cast_slice_mut(&mut self.column),
            bytemuck::cast_slice_mut(&mut self.value),
        ]
    }
}
