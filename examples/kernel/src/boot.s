// From where each CPU starts to Rust code in long mode. AT&T syntax.

// QEMU (-kernel), Xen, Firecracker and Cloud Hypervisor look for this note: the address at which to
// enter in 32-bit protected mode, without paging, a `StartInfo` at %ebx.
.section .note.Xen, "a", @note
    .long 4, 8, 18                  // the sizes of name and address; XEN_ELFNOTE_PHYS32_ENTRY
    .asciz "Xen"
    .quad pvh_start

.section .text.boot, "ax"
.code32
.global pvh_start
pvh_start:
    mov $first_stack_end, %esp
    mov %ebx, %edi                  // the argument of
    mov $first_main, %esi
    jmp enter_long_mode

// The second CPU comes here from `trampoline`.
second_start:
    mov $0x10, %eax
    mov %eax, %ds
    mov %eax, %es
    mov %eax, %ss
    mov $second_stack_end, %esp
    mov $second_main, %esi

// Calls %esi in long mode, with the argument %edi and the stack %esp.
enter_long_mode:
    mov %cr4, %eax
    or $0x20, %eax                  // PAE
    mov %eax, %cr4
    mov $page_map, %eax
    mov %eax, %cr3
    mov $0xc0000080, %ecx           // EFER
    rdmsr
    or $0x100, %eax                 // LME
    wrmsr
    mov %cr0, %eax
    or $0x80010000, %eax            // PG, WP
    mov %eax, %cr0
    lgdt gdt_pointer
    ljmp $0x08, $long_mode

.code64
long_mode:
    mov $0x10, %eax
    mov %eax, %ds
    mov %eax, %es
    mov %eax, %ss
    mov %edi, %edi                  // nothing says that the upper halves are zero
    mov %esi, %esi
    mov %esp, %esp
    call *%rsi
    ud2

// The second CPU wakes in real mode at a page below 1 MiB, to which this is copied: every address is
// relative to the page, until it leaves for `second_start`.
.section .rodata.trampoline, "a"
.code16
.global trampoline, trampoline_end
trampoline:
    cli
    mov %cs, %ax
    mov %ax, %ds
    lgdtl gdt_pointer_here - trampoline
    mov %cr0, %eax
    or $1, %eax                     // PE
    mov %eax, %cr0
    ljmpl $0x18, $second_start
gdt_pointer_here:
    .word gdt_end - gdt - 1
    .long gdt
trampoline_end:
.code64

.section .rodata.gdt, "a"
.balign 8
gdt:
    .quad 0
    .quad 0x00af9b000000ffff        // 0x08: 64-bit code
    .quad 0x00cf93000000ffff        // 0x10: data
    .quad 0x00cf9b000000ffff        // 0x18: 32-bit code
gdt_end:
gdt_pointer:
    .word gdt_end - gdt - 1
    .long gdt

// Pages of 2 MiB, every address mapped to itself up to `memory::MAPPED`. In .data, as the CPU sets bits
// that say what was used.
.section .data.paging, "aw"
.balign 4096
page_map:
    .quad directories + 3           // present, writable
    .fill 511, 8, 0
directories:
    .quad pages + 0x0003, pages + 0x1003, pages + 0x2003, pages + 0x3003, pages + 0x4003
    .fill 507, 8, 0
pages:
    .set at, 0
    .rept 5 * 512
    .quad at + 0x83                 // present, writable, large
    .set at, at + 0x200000
    .endr

.section .bss.stacks, "aw", @nobits
.balign 16
    .skip 65536
first_stack_end:
    .skip 65536
second_stack_end:
