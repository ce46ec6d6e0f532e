//! A pool of buffers that threads share, in a memfd: in huge pages where the system has some, which packed
//! placement keeps whole. Another process that is given the descriptor finds a buffer at its offset.
//!
//! Linux only.

#[cfg(target_os = "linux")]
mod memory;
#[cfg(target_os = "linux")]
mod pool;
#[cfg(target_os = "linux")]
mod threads;

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    threads::run()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("memfd is Linux's");
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    fn every_buffer_comes_back() {
        super::threads::run().unwrap();
    }
}
