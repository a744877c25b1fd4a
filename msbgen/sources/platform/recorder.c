/* Records one run of a program as last-level cache requests: a TCG plugin for qemu-user.
 *
 * Private caches (32 KiB L1I and L1D, 256 KiB L2, all 8-way LRU), a branch predictor and a table
 * of instruction costs turn the instruction stream into core cycles; every L2 miss is written
 * out, with one summary per `interval` instructions.  Timing is calibrated to no machine.
 * Only the first thread is recorded; an iteration of a repeated string instruction counts as an
 * instruction.
 *
 * Debian's qemu-user has no header package: the prototypes of plugin API version 1 that are
 * used stand below.  Arguments: prefix=PATH (absolute) and interval=INSTRUCTIONS; what is
 * written: PREFIX.requests, PREFIX.summaries and, once the program has ended, PREFIX.end with the
 * number of instructions that other threads executed.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- plugin API version 1 ---- */

typedef uint64_t plugin_id;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct plugin_info { const char *target_name; struct { int min, cur; } version; };
enum { CB_NO_REGS = 0, MEM_RW = 3 };

extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
extern const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
extern size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
extern uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
extern unsigned qemu_plugin_mem_size_shift(uint32_t);
extern void qemu_plugin_register_vcpu_tb_trans_cb(
    plugin_id, void (*)(plugin_id, struct qemu_plugin_tb *));
extern void qemu_plugin_register_vcpu_tb_exec_cb(
    struct qemu_plugin_tb *, void (*)(unsigned, void *), int, void *);
extern void qemu_plugin_register_vcpu_mem_cb(
    struct qemu_plugin_insn *, void (*)(unsigned, uint32_t, uint64_t, void *), int, int, void *);
extern void qemu_plugin_register_vcpu_syscall_cb(
    plugin_id, void (*)(plugin_id, unsigned, int64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                        uint64_t, uint64_t, uint64_t, uint64_t));
extern void qemu_plugin_register_vcpu_syscall_ret_cb(
    plugin_id, void (*)(plugin_id, unsigned, int64_t, int64_t));
extern void qemu_plugin_register_atexit_cb(plugin_id, void (*)(plugin_id, void *), void *);

#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = 1;

/* ---- costs: hundredths of a cycle, and nanoseconds for what no clock changes ---- */

enum {
    COST_SIMPLE = 40, COST_STACK = 50, COST_VECTOR = 55, COST_MULTIPLY = 100, COST_X87 = 100,
    COST_REPEAT = 25, COST_LOCKED = 1800, COST_DIVIDE = 900, COST_VECTOR_DIVIDE = 450,
    COST_SERIAL = 2500, COST_X87_LONG = 4000,
    COST_MISPREDICTED = 1500, COST_L2_DATA = 400, COST_L2_CODE = 800, COST_COPY_LINE = 400,
    INSTRUCTIONS_COPY_LINE = 4,
    TIME_SYSCALL = 500, TIME_PAGE_FAULT = 700,
};

/* ---- what is written ---- */

struct summary { uint64_t instructions, centicycles, fixed_ns, requests; };
enum { BUFFERED_REQUESTS = 1 << 17, BUFFERED_SUMMARIES = 64, PREFETCHED = 1 };

static char prefix[PATH_MAX - 16];
static uint64_t interval = 400000;
static pid_t owner;
static uint64_t requests[BUFFERED_REQUESTS];
static struct summary summaries[BUFFERED_SUMMARIES], now;
static size_t n_requests, n_summaries;
static uint64_t other_threads;
static bool broken;

/* Opened by name each time: guests may close every descriptor, this one's too.  A child of
 * fork() has a copy of all this and must not write. */
static void append(const char *suffix, const void *data, size_t size)
{
    char path[PATH_MAX];
    if (getpid() != owner || broken)
        return;
    snprintf(path, sizeof path, "%s.%s", prefix, suffix);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    broken = fd < 0;
    for (const char *p = data; size > 0 && !broken;) {
        ssize_t n = write(fd, p, size);
        broken = n <= 0;
        p += n;
        size -= n;
    }
    if (fd >= 0)
        close(fd);
}

static void flush(void)
{
    append("requests", requests, n_requests * sizeof *requests);
    append("summaries", summaries, n_summaries * sizeof *summaries);
    n_requests = n_summaries = 0;
}

static void end_interval(void)
{
    summaries[n_summaries++] = now;
    memset(&now, 0, sizeof now);
    if (n_summaries == BUFFERED_SUMMARIES)
        flush();
}

/* ---- caches: tags of a set in LRU order, most recent first; tag 0 is empty ---- */

enum { WAYS = 8, L1_SETS = 64, L2_SETS = 512, STREAMS = 32, LINE_BITS = 6, PAGE_BITS = 12 };

static uint64_t l1i[L1_SETS][WAYS], l1d[L1_SETS][WAYS], l2[L2_SETS][WAYS];

static inline bool touch(uint64_t *set, uint64_t tag)
{
    if (set[0] == tag)
        return true;
    int w = 1;
    while (w < WAYS - 1 && set[w] != tag)
        w++;
    bool hit = set[w] == tag;
    memmove(set + 1, set, w * sizeof *set);
    set[0] = tag;
    return hit;
}

/* A prefetcher follows up to 32 streams of L2 misses; from the third miss of a stream on, it
 * would have fetched the next line in time. */
static bool followed(uint64_t line)
{
    static struct { uint64_t last, used; int step, length; } streams[STREAMS];
    static uint64_t clock;
    int oldest = 0;
    clock++;
    for (int i = 0; i < STREAMS; i++) {
        int64_t step = (int64_t)(line - streams[i].last);
        if (streams[i].length > 0 && step != 0 && step >= -2 && step <= 2) {
            bool same = streams[i].length > 1 && (step > 0) == (streams[i].step > 0);
            streams[i].length = same ? streams[i].length + 1 : 2;
            streams[i].step = step;
            streams[i].last = line;
            streams[i].used = clock;
            return streams[i].length > 2;
        }
        if (streams[i].used < streams[oldest].used)
            oldest = i;
    }
    streams[oldest].last = line;
    streams[oldest].length = 1;
    streams[oldest].used = clock;
    return false;
}

/* One bit a page: whether it has been touched since it was mapped. */
static uint64_t *touched;
static const uint64_t N_PAGES = 1ull << 35;

static void fault_once(uint64_t line)
{
    uint64_t page = (line >> (PAGE_BITS - LINE_BITS)) & (N_PAGES - 1);
    if (!(touched[page >> 6] >> (page & 63) & 1)) {
        touched[page >> 6] |= 1ull << (page & 63);
        now.fixed_ns += TIME_PAGE_FAULT;
    }
}

static void forget(uint64_t start, uint64_t size)
{
    for (uint64_t page = start >> PAGE_BITS; page < (start + size) >> PAGE_BITS; page++)
        touched[(page & (N_PAGES - 1)) >> 6] &= ~(1ull << (page & 63));
}

static void miss_l1(uint64_t line, int cost)
{
    now.centicycles += cost;
    if (touch(l2[line % L2_SETS], line))
        return;
    requests[n_requests++] = line << 1 | (followed(line) ? PREFETCHED : 0);
    now.requests++;
    if (n_requests == BUFFERED_REQUESTS)
        flush();
}

static inline void touch_data(uint64_t line)
{
    if (!touch(l1d[line % L1_SETS], line)) {
        fault_once(line);
        miss_l1(line, COST_L2_DATA);
    }
}

static void on_memory(unsigned vcpu, uint32_t info, uint64_t address, void *unused)
{
    if (vcpu != 0)
        return;
    uint64_t first = address >> LINE_BITS;
    uint64_t last = (address + (1u << qemu_plugin_mem_size_shift(info)) - 1) >> LINE_BITS;
    touch_data(first);
    if (last != first)
        touch_data(last);
}

/* ---- branches: the outcome of a block's last instruction is known when the next begins ---- */

enum ending { FALLS, CONDITIONAL, INDIRECT, CALL, CALL_INDIRECT, RETURN };
struct block {
    uint64_t address, next, first_line, last_line;
    uint32_t instructions, centicycles;
    enum ending ending;
};

enum { COUNTERS = 1 << 14, TARGETS = 1 << 12, RETURNS = 16 };

static bool predicted(const struct block *block, uint64_t to)
{
    static uint8_t counters[COUNTERS];
    static uint64_t targets[TARGETS], returns[RETURNS], history;
    static unsigned top;
    uint64_t *target = &targets[(block->next ^ block->next >> 12 ^ history) % TARGETS];
    bool right = true;
    if (block->ending == CONDITIONAL) {
        uint8_t *counter = &counters[(block->next ^ history << 2) % COUNTERS];
        bool taken = to != block->next;
        right = (*counter >= 2) == taken;
        if (taken && *counter < 3)
            ++*counter;
        if (!taken && *counter > 0)
            --*counter;
        history = (history << 1 | taken) & 0xfff;
    } else if (block->ending == RETURN) {
        right = returns[top-- % RETURNS] == to;
    } else if (block->ending == INDIRECT || block->ending == CALL_INDIRECT) {
        right = *target == to;
        *target = to;
        history = (history << 2 ^ to >> 2) & 0xfff;
    }
    if (block->ending == CALL || block->ending == CALL_INDIRECT)
        returns[++top % RETURNS] = block->next;
    return right;
}

static void on_block(unsigned vcpu, void *data)
{
    static const struct block *before;
    static uint64_t last_line;
    const struct block *block = data;
    if (vcpu != 0) {
        __atomic_fetch_add(&other_threads, block->instructions, __ATOMIC_RELAXED);
        return;
    }
    if (before && before->ending != FALLS && !predicted(before, block->address))
        now.centicycles += COST_MISPREDICTED;
    before = block;
    for (uint64_t line = block->first_line; line <= block->last_line; line++) {
        if (line != last_line && !touch(l1i[line % L1_SETS], line)) {
            fault_once(line);
            miss_l1(line, COST_L2_CODE);
        }
        last_line = line;
    }
    now.instructions += block->instructions;
    now.centicycles += block->centicycles;
    if (now.instructions >= interval)
        end_interval();
}

/* ---- instructions: enough decoding to tell costs and branches apart ---- */

static int cost_of(const uint8_t *code, size_t size, enum ending *ending)
{
    bool locked = false, repeated = false;
    size_t i = 0;
    *ending = FALLS;
    for (; i < size; i++) {
        uint8_t c = code[i];
        if (c == 0xf0)
            locked = true;
        else if (c == 0xf2 || c == 0xf3)
            repeated = true;
        else if (c != 0x66 && c != 0x67 && c != 0x2e && c != 0x36 && c != 0x3e && c != 0x26
                 && c != 0x64 && c != 0x65)
            break;
    }
    if (i < size && (code[i] & 0xf0) == 0x40)  /* REX */
        i++;
    if (locked)
        return COST_LOCKED;
    int map = 0;
    if (i + 2 < size && code[i] == 0xc5) {
        map = 1;
        i += 2;
    } else if (i + 3 < size && code[i] == 0xc4) {
        map = code[i + 1] & 0x1f;
        i += 3;
    } else if (i + 4 < size && code[i] == 0x62) {
        map = code[i + 1] & 7;
        i += 4;
    } else if (i + 1 < size && code[i] == 0x0f) {
        map = 1;
        i++;
        if (i + 1 < size && (code[i] == 0x38 || code[i] == 0x3a)) {
            map = code[i] == 0x38 ? 2 : 3;
            i++;
        }
    }
    if (i >= size)
        return COST_SIMPLE;
    uint8_t op = code[i], modrm = i + 1 < size ? code[i + 1] : 0;
    int reg = modrm >> 3 & 7;
    if (map == 0) {
        if ((op & 0xf0) == 0x70 || (op >= 0xe0 && op <= 0xe3))
            *ending = CONDITIONAL;
        if (op == 0xe8)
            *ending = CALL;
        if (op == 0xc3 || op == 0xc2)
            *ending = RETURN;
        if (op == 0xff && reg == 2)
            *ending = CALL_INDIRECT;
        if (op == 0xff && reg == 4)
            *ending = INDIRECT;
        if (op == 0x69 || op == 0x6b || ((op == 0xf6 || op == 0xf7) && (reg == 4 || reg == 5)))
            return COST_MULTIPLY;
        if ((op == 0xf6 || op == 0xf7) && reg >= 6)
            return COST_DIVIDE;
        if (repeated && (op == 0xa4 || op == 0xa5 || op == 0xaa || op == 0xab || op == 0xa6
                         || op == 0xa7 || op == 0xae || op == 0xaf))
            return COST_REPEAT;
        if ((op & 0xf0) == 0x50 || op == 0xe8 || op == 0xc3 || op == 0xc9)
            return COST_STACK;
        if (op >= 0xd8 && op <= 0xdf)
            return op == 0xd9 && modrm >= 0xf0 && modrm != 0xf6 && modrm != 0xf7 ? COST_X87_LONG
                                                                                  : COST_X87;
        if (op == 0x86 || op == 0x87)  /* xchg: locked where it touches memory */
            return modrm >= 0xc0 ? COST_STACK : COST_LOCKED;
        return COST_SIMPLE;
    }
    if (map > 1)
        return COST_VECTOR;
    if ((op & 0xf0) == 0x80)
        *ending = CONDITIONAL;
    if (op == 0xaf)
        return COST_MULTIPLY;
    if (op == 0x5e || op == 0x51)
        return COST_VECTOR_DIVIDE;
    if (op == 0xa2 || op == 0x31 || op == 0x05)  /* cpuid, rdtsc, syscall */
        return COST_SERIAL;
    bool plain = (op & 0xf0) == 0x80 || (op & 0xf0) == 0x90 || (op & 0xf0) == 0x40 || op == 0x1f
                 || op == 0x1e || (op >= 0xa3 && op <= 0xbf) || op >= 0xc8;
    return plain ? COST_SIMPLE : COST_VECTOR;
}

static void on_translation(plugin_id id, struct qemu_plugin_tb *tb)
{
    size_t n = qemu_plugin_tb_n_insns(tb);
    struct block *block = calloc(1, sizeof *block);  /* lives as long as its translation */
    if (!block)
        abort();
    block->instructions = n;
    for (size_t i = 0; i < n; i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        uint64_t address = qemu_plugin_insn_vaddr(insn);
        size_t size = qemu_plugin_insn_size(insn);
        block->centicycles += cost_of(qemu_plugin_insn_data(insn), size, &block->ending);
        if (i == 0) {
            block->address = address;
            block->first_line = address >> LINE_BITS;
        }
        block->next = address + size;
        block->last_line = (address + size - 1) >> LINE_BITS;
        qemu_plugin_register_vcpu_mem_cb(insn, on_memory, CB_NO_REGS, MEM_RW, NULL);
    }
    qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, CB_NO_REGS, block);
}

/* ---- system calls: fixed time, and copies between the program and the page cache ---- */

enum { READ = 0, WRITE = 1, OPEN = 2, CLOSE = 3, LSEEK = 8, MUNMAP = 11, PREAD = 17, PWRITE = 18,
       READV = 19, WRITEV = 20, MADVISE = 28, SENDTO = 44, RECVFROM = 45, OPENAT = 257,
       DONTNEED = 4, FILES = 1024 };

static uint64_t call[4];
static struct { uint64_t file, position; } files[FILES];
static uint64_t n_files;

static void copy(uint64_t buffer, bool has_buffer, int fd, uint64_t position, uint64_t size)
{
    uint64_t file = fd >= 0 && fd < FILES ? files[fd].file : 0;
    /* the page cache lies above every user address */
    uint64_t cached = (1ull << 47) + (file << 36) + (position & ((1ull << 36) - 1));
    for (uint64_t done = 0; done < size; done += 1 << LINE_BITS) {
        if (has_buffer)
            touch_data((buffer + done) >> LINE_BITS);
        uint64_t line = (cached + done) >> LINE_BITS;
        if (!touch(l1d[line % L1_SETS], line))
            miss_l1(line, COST_L2_DATA);
        now.instructions += INSTRUCTIONS_COPY_LINE;
        now.centicycles += COST_COPY_LINE;
        if (now.instructions >= interval)
            end_interval();
    }
}

static void on_call(plugin_id id, unsigned vcpu, int64_t number, uint64_t a, uint64_t b,
                    uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h)
{
    if (vcpu != 0)
        return;
    call[0] = a;
    call[1] = b;
    call[2] = c;
    call[3] = d;
}

static void on_return(plugin_id id, unsigned vcpu, int64_t number, int64_t value)
{
    if (vcpu != 0)
        return;
    now.fixed_ns += TIME_SYSCALL;
    int fd = call[0] < FILES ? (int)call[0] : FILES;
    bool known = fd < FILES;
    if (value < 0)
        return;
    switch (number) {
    case OPEN:
    case OPENAT:
        if (value < FILES) {
            files[value].file = ++n_files;
            files[value].position = 0;
        }
        break;
    case LSEEK:
        if (known)
            files[fd].position = value;
        break;
    case READ:
    case WRITE:
    case READV:
    case WRITEV:
    case RECVFROM:
    case SENDTO:
        copy(call[1], number != READV && number != WRITEV, fd, known ? files[fd].position : 0,
             value);
        if (known)
            files[fd].position += value;
        break;
    case PREAD:
    case PWRITE:
        copy(call[1], true, fd, call[3], value);
        break;
    case MUNMAP:
        forget(call[0], call[1]);
        break;
    case MADVISE:
        if (call[2] == DONTNEED)
            forget(call[0], call[1]);
        break;
    }
}

/* Prints nothing: the program may have closed its standard error, or given the number away. */
static void on_exit_of_program(plugin_id id, void *unused)
{
    if (now.instructions > 0)
        end_interval();
    flush();
    append("end", &other_threads, sizeof other_threads);
}

EXPORT int qemu_plugin_install(plugin_id id, const struct plugin_info *info, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        if (strncmp(argv[i], "prefix=", 7) == 0)
            snprintf(prefix, sizeof prefix, "%s", argv[i] + 7);
        if (strncmp(argv[i], "interval=", 9) == 0)
            interval = strtoull(argv[i] + 9, NULL, 10);
    }
    owner = getpid();
    touched = mmap(NULL, N_PAGES / 8, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (prefix[0] != '/' || interval == 0 || touched == MAP_FAILED) {
        fprintf(stderr, "recorder: no absolute prefix, no interval or no address space\n");
        return -1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    qemu_plugin_register_vcpu_syscall_cb(id, on_call);
    qemu_plugin_register_vcpu_syscall_ret_cb(id, on_return);
    qemu_plugin_register_atexit_cb(id, on_exit_of_program, NULL);
    return 0;
}
