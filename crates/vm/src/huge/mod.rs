//! Huge pages: transparent ones, the sizes below them, and the hugetlb pool.

pub mod hugetlb;
pub mod khugepaged;
pub mod mthp;
pub mod thp;
