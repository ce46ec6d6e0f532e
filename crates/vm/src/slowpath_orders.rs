//! The orders that the slow path distinguishes, under their kernel names.

pub(crate) use pageblock::slowpath::PAGE_ALLOC_COSTLY_ORDER;
