//! Small inputs made by the tests: a `trace.dat` of either version and byte order.

/// How a made trace is stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    pub(crate) version: u8,
    pub(crate) big_endian: bool,
    pub(crate) zstd: bool,
}

const PAGE_BYTES: usize = 256;
const COMMON: &str = "format:\n\
    \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";
const FREE: &str = "\tfield:unsigned long pfn;\toffset:8;\tsize:8;\tsigned:0;\n\
    \tfield:unsigned int order;\toffset:16;\tsize:4;\tsigned:0;\n\n\
    print fmt: \"pfn=0x%lx order=%d\", REC->pfn, REC->order\n";
const ALLOC: &str = "\tfield:unsigned long pfn;\toffset:8;\tsize:8;\tsigned:0;\n\
    \tfield:unsigned int order;\toffset:16;\tsize:4;\tsigned:0;\n\
    \tfield:unsigned int gfp_flags;\toffset:20;\tsize:4;\tsigned:0;\n\
    \tfield:int migratetype;\toffset:24;\tsize:4;\tsigned:1;\n\n\
    print fmt: \"gfp_flags=%s\", (REC->gfp_flags) ? __print_flags(REC->gfp_flags, \"|\", \
    {(unsigned long)((1 << 4) | 2), \"GFP_KERNEL\"}, {(1UL << 8), \"__GFP_ZERO\"}) : \"none\"\n";

/// Writes numbers in a byte order.
#[derive(Clone, Default)]
struct Out {
    bytes: Vec<u8>,
    big_endian: bool,
}

impl Out {
    fn put(&mut self, value: u64, len: usize) -> &mut Self {
        let word = if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
        let part = if self.big_endian { &word[8 - len..] } else { &word[..len] };
        self.bytes.extend(part);
        self
    }

    fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend(bytes);
        self
    }

    fn sized(&mut self, text: &str) -> &mut Self {
        self.put(text.len() as u64, 8).raw(text.as_bytes())
    }
}

/// A trace of two CPUs: CPU 0 frees frame `n` at `n` microseconds for even `n`, CPU 1 allocates it
/// for odd `n`, with one failure; before CPU 1's first page seven events were lost, its counters say
/// two more, and three that were dropped.
pub(crate) fn trace_dat(form: Form, events: u64) -> Vec<u8> {
    let out = Out { bytes: Vec::new(), big_endian: form.big_endian };
    let cpus: Vec<_> = (0..2).map(|cpu| pages(&out, cpu, events)).collect();
    let sections = sections(&out);
    let mut file = out.clone();
    file.raw(b"\x17\x08\x44tracing").raw(&[b'0' + form.version, 0]);
    file.raw(&[u8::from(form.big_endian), 8]).put(PAGE_BYTES as u64, 4);
    if form.version == 6 {
        version_6(file, sections, cpus)
    } else {
        version_7(file, form, sections, cpus)
    }
}

fn version_6(mut file: Out, sections: [(u16, Out); 4], cpus: Vec<Out>) -> Vec<u8> {
    let [info, ftrace, events, cmdlines] = sections;
    file.raw(&info.1.bytes).raw(&ftrace.1.bytes).raw(&events.1.bytes);
    file.put(0, 4).put(0, 4).raw(&cmdlines.1.bytes).put(2, 4);
    file.raw(b"options  \0").put(5, 2).put(11, 4).raw(b"Linux 6.1.2");
    counters(&mut file);
    file.put(0, 2);
    file.raw(b"flyrecord\0");
    let mut at = (file.bytes.len() + 32) as u64;
    for cpu in &cpus {
        file.put(at, 8).put(cpu.bytes.len() as u64, 8);
        at += cpu.bytes.len() as u64;
    }
    for cpu in &cpus {
        file.raw(&cpu.bytes);
    }
    file.bytes
}

fn version_7(mut file: Out, form: Form, sections: [(u16, Out); 4], cpus: Vec<Out>) -> Vec<u8> {
    file.raw(if form.zstd { b"zstd\x001.5.4\0" } else { b"none\0\0" });
    let options_at = file.bytes.len();
    file.put(0, 8);
    let mut options = Out { bytes: Vec::new(), big_endian: form.big_endian };
    let section = |file: &mut Out, id: u16, data: &[u8]| {
        let at = file.bytes.len() as u64;
        file.put(id.into(), 2).put(form.zstd.into(), 2).put(0, 4);
        let packed = zstd::encode_all(data, 3).unwrap();
        if form.zstd {
            file.put(packed.len() as u64 + 8, 8);
            file.put(packed.len() as u64, 4).put(data.len() as u64, 4).raw(&packed);
        } else {
            file.put(data.len() as u64, 8).raw(data);
        }
        at
    };
    for (id, data) in &sections {
        let at = section(&mut file, *id, &data.bytes);
        options.put((*id).into(), 2).put(8, 4).put(at, 8);
    }
    options.put(5, 2).put(11, 4).raw(b"Linux 6.1.2");
    counters(&mut options);
    let at = file.bytes.len() as u64;
    file.put(3, 2).put(form.zstd.into(), 2).put(0, 4).put(0, 8);
    let mut buffer = Out { bytes: Vec::new(), big_endian: form.big_endian };
    buffer.put(at, 8).raw(b"\0local\0").put(PAGE_BYTES as u64, 4).put(2, 4);
    for (cpu, data) in cpus.iter().enumerate() {
        let at = file.bytes.len() as u64;
        if form.zstd {
            let chunks: Vec<_> = data.bytes.chunks(2 * PAGE_BYTES).collect();
            file.put(chunks.len() as u64, 4);
            for chunk in chunks {
                let packed = zstd::encode_all(chunk, 3).unwrap();
                file.put(packed.len() as u64, 4).put(chunk.len() as u64, 4).raw(&packed);
            }
        } else {
            file.raw(&data.bytes);
        }
        buffer.put(cpu as u64, 4).put(at, 8).put(file.bytes.len() as u64 - at, 8);
    }
    options.put(3, 2).put(buffer.bytes.len() as u64, 4).raw(&buffer.bytes);
    options.put(0, 2).put(8, 4).put(0, 8);
    let at = section(&mut file, 0, &options.bytes);
    let mut patch = Out { bytes: Vec::new(), big_endian: form.big_endian };
    file.bytes[options_at..options_at + 8].copy_from_slice(&patch.put(at, 8).bytes);
    file.bytes
}

/// The ring buffer's counters of both CPUs, then those of another buffer.
fn counters(options: &mut Out) {
    let cpu = |cpu: u32, overrun: u32, dropped: u32| {
        format!(
            "CPU: {cpu}\nentries: 0\noverrun: {overrun}\ncommit overrun: 0\nbytes: 0\n\
             dropped events: {dropped}\nread events: 50\n\0"
        )
    };
    for text in [cpu(0, 0, 0), cpu(1, 9, 3), "\nBuffer: other\n\n\0".to_owned(), cpu(0, 500, 0)] {
        options.put(2, 2).put(text.len() as u64, 4).raw(text.as_bytes());
    }
}

fn sections(out: &Out) -> [(u16, Out); 4] {
    let [mut info, mut ftrace, mut events, mut cmdlines] = [(); 4].map(|()| out.clone());
    let data = PAGE_BYTES - 16;
    let page = format!(
        "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
         \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
         \tfield: char data;\toffset:16;\tsize:{data};\tsigned:0;\n"
    );
    info.raw(b"header_page\0").sized(&page).raw(b"header_event\0").sized("");
    let print = "\tfield:unsigned long ip;\toffset:8;\tsize:8;\tsigned:0;\n\
                 \tfield:char buf[];\toffset:16;\tsize:0;\tsigned:0;\n\n\
                 print fmt: \"%s\", REC->buf\n";
    ftrace.put(1, 4).sized(&format!("name: print\nID: 5\n{COMMON}{print}"));
    events.put(1, 4).raw(b"kmem\0").put(2, 4);
    events.sized(&format!("name: mm_page_free\nID: 600\n{COMMON}{FREE}"));
    events.sized(&format!("name: mm_page_alloc\nID: 601\n{COMMON}{ALLOC}"));
    cmdlines.sized("7 worker\n");
    [(16, info), (17, ftrace), (18, events), (21, cmdlines)]
}

/// The ring-buffer pages of a CPU.
fn pages(out: &Out, cpu: u64, events: u64) -> Out {
    let mut all = out.clone();
    let mut page = out.clone();
    let (mut page_t, mut t) = (0, 0);
    let flush = |all: &mut Out, page: &mut Out, t: u64| {
        // The first page of CPU 1 says how many events were lost before it.
        let lost = cpu == 1 && all.bytes.is_empty();
        let flags = if lost { 1 << 31 | 1 << 30 } else { 0 };
        all.put(t, 8).put(page.bytes.len() as u64 | flags, 8);
        if lost {
            page.put(7, 8);
        }
        page.bytes.resize(PAGE_BYTES - 16, 0);
        all.raw(&page.bytes);
        page.bytes.clear();
    };
    for n in (cpu..events).step_by(2) {
        let mut record = out.clone();
        record.put(600 + cpu, 2).put(0, 2).put(7, 4);
        if cpu == 0 {
            record.put(n, 8).put(3, 4);
        } else {
            let pfn = if n == 1 { u64::MAX } else { n };
            record.put(pfn, 8).put(0, 4).put(0x112, 4).put(1, 4);
        }
        if page.bytes.len() + record.bytes.len() + 4 + 8 > PAGE_BYTES - 16 {
            flush(&mut all, &mut page, page_t);
        }
        let now = n * 1000 + 1;
        if page.bytes.is_empty() {
            (page_t, t) = (now, now);
        }
        let (words, delta) = (record.bytes.len() as u64 / 4, now - t);
        let header = if out.big_endian { words << 27 | delta } else { delta << 5 | words };
        page.put(header, 4).raw(&record.bytes);
        t = now;
    }
    if !page.bytes.is_empty() {
        flush(&mut all, &mut page, page_t);
    }
    all
}
