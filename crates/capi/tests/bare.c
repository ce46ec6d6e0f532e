/* A program without an operating system: it defines everything that the library needs of C. */
#include <pageblock.h>

#define FRAMES 4096

static unsigned char memory[1 << 16];

#ifdef BARE
void abort(void)
{
    for (;;)
        ;
}

void *memset(void *to, int byte, size_t n)
{
    volatile unsigned char *at = to;
    while (n--)
        *at++ = (unsigned char)byte;
    return to;
}

void *memcpy(void *to, const void *from, size_t n)
{
    volatile unsigned char *at = to;
    const unsigned char *source = from;
    while (n--)
        *at++ = *source++;
    return to;
}

void *memmove(void *to, const void *from, size_t n)
{
    volatile unsigned char *at = to;
    const unsigned char *source = from;
    if (at <= source)
        return memcpy(to, from, n);
    while (n--)
        at[n] = source[n];
    return to;
}

int memcmp(const void *a, const void *b, size_t n)
{
    const volatile unsigned char *x = a, *y = b;
    for (; n--; x++, y++)
        if (*x != *y)
            return *x - *y;
    return 0;
}

int bcmp(const void *a, const void *b, size_t n)
{
    return memcmp(a, b, n);
}

size_t strlen(const char *text)
{
    const volatile char *end = text;
    while (*end)
        end++;
    return (size_t)(end - text);
}
#endif

int main(void)
{
    pb_zone zone = {.start = 0, .end = FRAMES, .kind = PB_ZONE_NORMAL};
    pb_setup setup = {.zones = &zone, .zone_count = 1, .cpu_count = 1, .policy = "linux-6.12"};
    pb_range all = {0, FRAMES};
    pb_allocator *allocator;
    pb_cpu *cpu;
    size_t size;
    uint64_t frame;
    return pb_metadata_size(&setup, &size) || pb_create(&setup, memory, sizeof memory, &allocator)
        || pb_release(allocator, &all, 1) || pb_cpu_take(allocator, 0, &cpu)
        || pb_alloc(cpu, 3, PB_GFP_KERNEL, &frame) || pb_free(cpu, frame, 3) || pb_cpu_give(cpu)
        || pb_check(allocator, NULL, 0);
}
