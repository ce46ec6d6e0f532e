//! Socket buffers: the memory that a datagram takes.
//!
//! As in Linux 5.13 (`__ip_append_data`, `__alloc_skb`): the headers and the whole payload are in one `kmalloc`
//! allocation, followed by `struct skb_shared_info`; `struct sk_buff` is an object of a cache of its own. From 5.14
//! on payloads of more than 16 KiB are in page fragments instead.

use pageblock::frame::Order;

/// The allocation of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Buffer {
    /// An object of a `kmalloc` cache of this size in bytes.
    Object(u32),
    /// A block straight from the page allocator (`kmalloc_large`).
    Block(Order),
}

/// Bytes of `struct sk_buff` in its cache (`skbuff_head_cache`).
pub const HEAD: u32 = 256;
/// A socket's receive buffer in bytes (`net.core.rmem_default`).
pub const SOCKET_BUFFER: u32 = 212_992;
/// Bytes before the payload: the link layer's header with its reserve (16), IP's (20), UDP's (8), and
/// what the alignment may take (15).
const HEADERS: u32 = 16 + 20 + 8 + 15;
/// Bytes of `struct skb_shared_info`, aligned.
const SHARED_INFO: u32 = 320;
/// The alignment of both parts in bytes.
const CACHE_LINE: u32 = 64;
/// The largest object of SLUB's `kmalloc` caches (`KMALLOC_MAX_CACHE_SIZE`): two pages.
const LARGEST_OBJECT: u32 = 8192;
const PAGE_SIZE: u32 = 4096;

impl Buffer {
    /// Returns the buffer of a datagram with a payload of `payload` bytes, which must fit the device's MTU (65,536 on
    /// the loopback device).
    #[must_use]
    pub const fn of_datagram(payload: u32) -> Self {
        let bytes = (payload + HEADERS).next_multiple_of(CACHE_LINE) + SHARED_INFO;
        if bytes > LARGEST_OBJECT {
            return Self::Block(bytes.div_ceil(PAGE_SIZE).next_power_of_two().ilog2() as Order);
        }
        Self::Object(if bytes <= 8 { 8 } else { bytes.next_power_of_two() })
    }

    /// Returns its size in bytes with padding (`ksize`).
    #[must_use]
    pub const fn bytes(self) -> u32 {
        match self {
            Self::Object(size) => size,
            Self::Block(order) => PAGE_SIZE << order,
        }
    }
}

/// Returns the largest number of datagrams that wait in a socket: each is charged its size in memory
/// (`skb->truesize`) against the socket's buffer of `socket_buffer` bytes; one always fits.
#[must_use]
pub const fn queued(payload: u32, socket_buffer: u32) -> u32 {
    let queued = socket_buffer / (Buffer::of_datagram(payload).bytes() + HEAD);
    if queued == 0 { 1 } else { queued }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/experiments/sources.md#memcached-and-network: observed on 6.18 from 256 bytes on, where the head of
    /// small payloads has a cache of its own; 16,384 bytes are in one block up to 5.13.
    #[test]
    fn buffers_are_those_observed() {
        let sizes = [64, 128, 256, 1024, 2048, 3312, 4096, 8192, 16384];
        use Buffer::{Block, Object};
        let expect = [
            Object(512),
            Object(512),
            Object(1024),
            Object(2048),
            Object(4096),
            Object(4096),
            Object(8192),
            Block(2),
            Block(3),
        ];
        assert_eq!(sizes.map(Buffer::of_datagram), expect);
    }

    #[test]
    fn a_socket_always_takes_one() {
        assert_eq!(queued(16384, 212_992), 6);
        assert_eq!(queued(64, 212_992), 277);
        assert_eq!(queued(16384, 1000), 1);
    }
}
