//! Huge pages: transparent ones, the sizes below them, and the hugetlb pool.

pub mod hugetlb;
pub mod khugepaged;
pub mod mthp;
mod split;
pub mod thp;

/// The huge pages of a machine.
#[derive(Debug, Default)]
pub(crate) struct HugePages {
    khugepaged: khugepaged::Khugepaged,
    hugetlb: hugetlb::Pool,
}
