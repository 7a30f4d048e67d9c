/* One event from a Python dict against the index: scratch.py's spread and kernels.py's match_one in
 * C, where calling into compiled code from Python is most of the cost of a small event.
 *
 * The tables are those that kernels.py describes; the numbers of their fields are passed in once,
 * by configure(), so that there is one definition of the layout. The one test that matters, 64
 * lanes at once, exists for AVX-512, AVX2 and anything else; which one is decided when the module
 * is loaded.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define LAYOUT 5 /* as in fields.py */
#define ABSENT 65535
#define NEGATED 0x80000000u
#define ID_MASK 0x3FFFFFFFu
#define SHARED 0x80000000u
#define OPAQUE 0x40000000u
#define DEAD 0xFFFFFFFFu

/* Positions in the tables, in the order of FIELDS in single.py. */
enum {
    COLUMNS, SEGMENTS, SEGMENT_TABLE, SNAPSHOTS, SNAPSHOT_TABLE, RECENT, RECENT_START, RECENT_IDS,
    RECENT_COLUMNS, RECENT_LOW, RECENT_HIGH, SEEN, TOUCHED, TOUCHED_COUNT,
    READY, SCRATCH_CODES, SCRATCH_KEYS, SCRATCH_OUT,
    SNAPSHOT, FREE_GROUPS, GROUP_STARTS, GROUP_COLUMNS, GROUP_TABLE,
    HANDLES, HANDLE_COUNT, PLACES, FLAGGED, LIVE,
    WIDTH, KEYS, EXACT, BLOCKS, BOUNDS, IDS, ALIVE, ZONES, SUPERS, SLOTS, SLOT_COUNT,
    RESIDUAL_START, RESIDUAL_COLUMNS, RESIDUAL_CODES, RESIDUAL_EXACT, SPECIAL, GROUP_SIZE,
    CUTS, CUT_COUNT, CUT_CELLS, CUT_BASE, CUT_SCALE, CUT_LAST_CELL, CUT_SIZE, FIELD_COUNT
};
static int64_t at[FIELD_COUNT];

typedef const int64_t *table;
#define FIELD(t, name) ((t)[at[name]])
#define AS(type, number) ((type *)(uintptr_t)(number))

static inline double as_double(int64_t bits) { double d; memcpy(&d, &bits, 8); return d; }

static inline uint16_t code_of(double key, table cuts)
{
    int64_t count = FIELD(cuts, CUT_COUNT);
    if (!count) return 2;
    double scaled = (key - as_double(FIELD(cuts, CUT_BASE))) * as_double(FIELD(cuts, CUT_SCALE));
    int64_t last = FIELD(cuts, CUT_LAST_CELL), cell = 0;
    if (scaled >= (double)last) cell = last;
    else if (scaled > 0.0) cell = (int64_t)scaled;
    const uint16_t *cells = AS(const uint16_t, FIELD(cuts, CUT_CELLS));
    const double *values = AS(const double, FIELD(cuts, CUTS));
    int64_t low = cells[cell], high = cells[cell + 1];
    while (low < high) {
        int64_t middle = (low + high) >> 1;
        if (values[middle] < key) low = middle + 1; else high = middle;
    }
    return (uint16_t)(2 * low + (low < count && values[low] == key ? 3 : 2));
}

static inline uint64_t pack(const uint8_t *flags)
{
    uint64_t bits = 0;
    for (int i = 0; i < 8; i++) {
        uint64_t eight;
        memcpy(&eight, flags + 8 * i, 8);
        bits |= ((eight * 0x0102040810204080ull) >> 56) << (8 * i);
    }
    return bits;
}

#define SMALL 8
static inline uint64_t within8(const uint16_t *low, const uint16_t *high, uint16_t code)
{
    uint8_t flags[8];
    uint64_t eight;
    for (int i = 0; i < 8; i++) flags[i] = (uint8_t)((low[i] <= code) & (code <= high[i]));
    memcpy(&eight, flags, 8);
    return (eight * 0x0102040810204080ull) >> 56;
}

typedef uint64_t (*within)(const uint16_t *, const uint16_t *, uint16_t);
typedef uint32_t *(*emit)(uint32_t *, const uint32_t *, uint64_t);

static inline uint32_t *emit_any(uint32_t *out, const uint32_t *ids, uint64_t chosen)
{
    for (; chosen; chosen &= chosen - 1) *out++ = ids[__builtin_ctzll(chosen)];
    return out;
}

static inline uint64_t within_any(const uint16_t *low, const uint16_t *high, uint16_t code)
{
    uint8_t flags[64];
    for (int i = 0; i < 64; i++) flags[i] = (uint8_t)((low[i] <= code) & (code <= high[i]));
    return pack(flags);
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define WIDE __attribute__((target("avx512bw")))
WIDE static inline uint64_t within_avx512(const uint16_t *low, const uint16_t *high, uint16_t code)
{
    __m512i x = _mm512_set1_epi16((short)code);
    uint64_t a = _mm512_cmple_epu16_mask(_mm512_loadu_si512(low), x)
               & _mm512_cmpge_epu16_mask(_mm512_loadu_si512(high), x);
    uint64_t b = _mm512_cmple_epu16_mask(_mm512_loadu_si512(low + 32), x)
               & _mm512_cmpge_epu16_mask(_mm512_loadu_si512(high + 32), x);
    return a | b << 32;
}
WIDE static inline uint32_t *emit_avx512(uint32_t *out, const uint32_t *ids, uint64_t chosen)
{
    if (__builtin_popcountll(chosen) <= 5) return emit_any(out, ids, chosen);
    for (int i = 0; i < 64; i += 16) { /* there is room for 16 more than are found */
        __mmask16 some = (__mmask16)(chosen >> i);
        _mm512_storeu_si512(out, _mm512_maskz_compress_epi32(some, _mm512_loadu_si512(ids + i)));
        out += __builtin_popcount(some);
    }
    return out;
}
#define HALF __attribute__((target("avx2")))
HALF static inline uint64_t within_avx2(const uint16_t *low, const uint16_t *high, uint16_t code)
{
    __m256i x = _mm256_set1_epi16((short)code);
    uint64_t bits = 0;
    for (int i = 0; i < 2; i++) {
        __m256i hit[2];
        for (int j = 0; j < 2; j++) {
            __m256i l = _mm256_loadu_si256((const __m256i *)(low + 32 * i + 16 * j));
            __m256i h = _mm256_loadu_si256((const __m256i *)(high + 32 * i + 16 * j));
            hit[j] = _mm256_and_si256(_mm256_cmpeq_epi16(_mm256_min_epu16(l, x), l),
                                      _mm256_cmpeq_epi16(_mm256_max_epu16(h, x), h));
        }
        __m256i bytes = _mm256_permute4x64_epi64(_mm256_packs_epi16(hit[0], hit[1]), 0xD8);
        bits |= (uint64_t)(uint32_t)_mm256_movemask_epi8(bytes) << (32 * i);
    }
    return bits;
}
#endif

static inline int fresh(int64_t *index, uint32_t id)
{
    uint64_t *word = AS(uint64_t, FIELD(index, SEEN)) + (id >> 6), bit = 1ull << (id & 63);
    if (*word & bit) return 0;
    *word |= bit;
    AS(uint32_t, FIELD(index, TOUCHED))[FIELD(index, TOUCHED_COUNT)++] = id;
    return 1;
}

static void clear_seen(int64_t *index)
{
    for (int64_t i = 0; i < FIELD(index, TOUCHED_COUNT); i++)
        AS(uint64_t, FIELD(index, SEEN))[AS(uint32_t, FIELD(index, TOUCHED))[i] >> 6] = 0;
    FIELD(index, TOUCHED_COUNT) = 0;
}

static inline uint32_t *emit_flagged(int64_t *index, uint32_t *out, uint32_t flagged)
{
    if (flagged & OPAQUE) *out++ = flagged;
    else if (!(flagged & SHARED) || fresh(index, flagged & ID_MASK)) *out++ = flagged & ID_MASK;
    return out;
}

static uint64_t residual(table group, const uint16_t *codes, const double *keys, int64_t base,
                         uint64_t chosen)
{
    const uint32_t *starts = AS(const uint32_t, FIELD(group, RESIDUAL_START)) + base;
    const uint32_t *columns = AS(const uint32_t, FIELD(group, RESIDUAL_COLUMNS));
    const uint16_t *bounds = AS(const uint16_t, FIELD(group, RESIDUAL_CODES));
    const double *exact = AS(const double, FIELD(group, RESIDUAL_EXACT));
    uint64_t kept = chosen;
    for (; chosen; chosen &= chosen - 1) {
        int lane = __builtin_ctzll(chosen);
        for (uint32_t i = starts[lane]; i < starts[lane + 1]; i++) {
            uint32_t column = columns[i] & ~NEGATED;
            uint16_t code = codes[column], low = bounds[2 * i], high = bounds[2 * i + 1];
            int holds = low <= code && code <= high;
            if (exact && holds && !(code & 1) && (code == low || code == high))
                holds = exact[2 * i] <= keys[column] && keys[column] <= exact[2 * i + 1];
            if (holds == (columns[i] >= NEGATED)) { kept &= ~(1ull << lane); break; }
        }
    }
    return kept;
}

static inline __attribute__((always_inline)) uint32_t *
scan_group(int64_t *index, table group, const uint16_t *codes, const double *keys, uint32_t *out,
           int64_t width, within within64, emit emit64)
{
    int64_t blocks = FIELD(group, BLOCKS);
    uint16_t code[4] = {0, 0, 0, 0};
    for (int64_t i = 0; i < width; i++) {
        code[i] = codes[group[at[KEYS] + i]];
        if (code[i] == ABSENT) return out;
    }
    const uint16_t *bounds = AS(const uint16_t, FIELD(group, BOUNDS));
    const uint32_t *ids = AS(const uint32_t, FIELD(group, IDS));
    const uint64_t *alive = AS(const uint64_t, FIELD(group, ALIVE));
    const uint64_t *special = AS(const uint64_t, FIELD(group, SPECIAL));
    const uint16_t *zones = AS(const uint16_t, FIELD(group, ZONES));
    const uint16_t *supers = AS(const uint16_t, FIELD(group, SUPERS));
    const uint16_t *slots = AS(const uint16_t, FIELD(group, SLOTS));
    int64_t slot_count = FIELD(group, SLOT_COUNT), rest = FIELD(group, RESIDUAL_START);
    int64_t super_count = (blocks + 63) >> 6;
    for (int64_t first = 0; first < super_count; first += 64) {
        uint64_t todo = 1;
        if (super_count > 1) {
            const uint16_t *s = supers + first * width * 2;
            todo = ~0ull;
            for (int64_t i = 0; i < width; i++) todo &= within64(s + 128 * i, s + 128 * i + 64, code[i]);
            if (super_count - first < 64) todo &= (1ull << (super_count - first)) - 1;
        }
        for (; todo; todo &= todo - 1) {
            int64_t chunk = first + __builtin_ctzll(todo), left = blocks - 64 * chunk;
            uint64_t outer = ~0ull, inner = ~0ull;
            if (blocks <= SMALL) {
                const uint16_t *z = zones;
                for (int64_t i = 0; i < width; i++, z += 4 * SMALL) {
                    outer &= within8(z, z + SMALL, code[i]);
                    inner &= within8(z + 2 * SMALL, z + 3 * SMALL, code[i]);
                }
            } else {
                const uint16_t *z = zones + chunk * width * 256;
                for (int64_t i = 0; i < width; i++, z += 256) {
                    outer &= within64(z, z + 64, code[i]);
                    inner &= within64(z + 128, z + 192, code[i]);
                }
            }
            if (!width && (slot_count || rest)) inner = 0;
            if (left < 64) outer &= (1ull << left) - 1;
            for (; outer; outer &= outer - 1) {
                int bit = __builtin_ctzll(outer);
                int64_t block = 64 * chunk + bit;
                uint64_t chosen = alive[block];
                const uint32_t *here = ids + 64 * block;
                if (!(inner >> bit & 1)) {
                    const uint16_t *b = bounds + 128 * width * block;
                    for (int64_t i = 0; i < width; i++)
                        chosen &= within64(b + 128 * i, b + 128 * i + 64, code[i]);
                    if (!chosen) continue;
                    for (int64_t i = 0; i < width; i++) {
                        const double *exact = AS(const double, group[at[EXACT] + i]);
                        if (!exact || code[i] & 1) continue;
                        double value = keys[group[at[KEYS] + i]];
                        const uint16_t *low = b + 128 * i, *high = low + 64;
                        exact += 2 * 64 * block;
                        for (uint64_t left = chosen; left; left &= left - 1) {
                            int lane = __builtin_ctzll(left);
                            if ((low[lane] == code[i] || high[lane] == code[i])
                                && !(exact[2 * lane] <= value && value <= exact[2 * lane + 1]))
                                chosen &= ~(1ull << lane);
                        }
                    }
                    for (int64_t s = 0; s < slot_count && chosen; s++) {
                        const uint16_t *slot =
                            slots + 3 * (slot_count * 64 * block + s);
                        uint64_t kept = 0;
                        for (; chosen; chosen &= chosen - 1) {
                            int lane = __builtin_ctzll(chosen);
                            const uint16_t *mine = slot + 3 * slot_count * lane;
                            uint16_t offset = (uint16_t)(codes[mine[0]] - mine[1]);
                            kept |= (uint64_t)(offset <= mine[2]) << lane;
                        }
                        chosen = kept;
                    }
                    if (rest && chosen)
                        chosen = residual(group, codes, keys, 64 * block, chosen);
                }
                if (special) {
                    uint64_t odd = chosen & special[block];
                    chosen &= ~odd;
                    for (; odd; odd &= odd - 1)
                        out = emit_flagged(index, out, here[__builtin_ctzll(odd)]);
                }
                if (chosen == ~0ull) { memcpy(out, here, 256); out += 64; }
                else out = emit64(out, here, chosen);
            }
        }
    }
    return out;
}

/* One copy of the scan for each number of keys: their loops are unrolled. */
#define SCAN(within64, emit64)                                                                \
    switch (FIELD(group, WIDTH)) {                                                            \
    case 0: return scan_group(index, group, codes, keys, out, 0, within64, emit64);           \
    case 1: return scan_group(index, group, codes, keys, out, 1, within64, emit64);           \
    case 2: return scan_group(index, group, codes, keys, out, 2, within64, emit64);           \
    case 3: return scan_group(index, group, codes, keys, out, 3, within64, emit64);           \
    default: return scan_group(index, group, codes, keys, out, 4, within64, emit64);          \
    }

static uint32_t *group_any(int64_t *index, table group, const uint16_t *codes, const double *keys,
                           uint32_t *out)
{
    SCAN(within_any, emit_any)
}

static uint32_t *(*match_group)(int64_t *, table, const uint16_t *, const double *, uint32_t *) =
    group_any;

#ifdef WIDE
WIDE static uint32_t *group_avx512(int64_t *index, table group, const uint16_t *codes,
                                   const double *keys, uint32_t *out)
{
    SCAN(within_avx512, emit_avx512)
}
HALF static uint32_t *group_avx2(int64_t *index, table group, const uint16_t *codes,
                                 const double *keys, uint32_t *out)
{
    SCAN(within_avx2, emit_any)
}
#endif

static uint32_t *match_recent(int64_t *index, const double *keys, uint32_t *out)
{
    const uint32_t *ids = AS(const uint32_t, FIELD(index, RECENT_IDS));
    const uint32_t *starts = AS(const uint32_t, FIELD(index, RECENT_START));
    const uint32_t *columns = AS(const uint32_t, FIELD(index, RECENT_COLUMNS));
    const double *low = AS(const double, FIELD(index, RECENT_LOW));
    const double *high = AS(const double, FIELD(index, RECENT_HIGH));
    int64_t count = FIELD(index, RECENT);
    for (int64_t lane = 0; lane < count; lane++) {
        uint32_t i = starts[lane], end = starts[lane + 1];
        for (; i < end; i++) {
            double key = keys[columns[i] & ~NEGATED];
            if ((low[i] <= key && key <= high[i]) == (columns[i] >= NEGATED)) break;
        }
        if (i == end && ids[lane] != DEAD) out = emit_flagged(index, out, ids[lane]);
    }
    return out;
}

static int64_t match_entries(int64_t *index, const int64_t *entries, int64_t count, uint16_t *codes,
                             double *keys, uint32_t *out)
{
    int64_t width = FIELD(index, COLUMNS), snapshots = FIELD(index, SNAPSHOTS);
    const int64_t *cuts = AS(const int64_t, FIELD(index, SNAPSHOT_TABLE));
    uint32_t *start = out;
    for (int64_t i = 0; i < count; i++) {
        int64_t column = entries[2 * i];
        keys[column] = as_double(entries[2 * i + 1]);
        for (int64_t s = 0; s < snapshots; s++)
            codes[width * s + column] =
                code_of(keys[column], AS(const int64_t, cuts[s]) + at[CUT_SIZE] * column);
    }
    const int64_t *segments = AS(const int64_t, FIELD(index, SEGMENT_TABLE));
    for (int64_t n = 0; n < FIELD(index, SEGMENTS); n++) {
        table segment = AS(const int64_t, segments[n]);
        const uint16_t *mine = codes + width * FIELD(segment, SNAPSHOT);
        table groups = AS(const int64_t, FIELD(segment, GROUP_TABLE));
        const uint32_t *starts = AS(const uint32_t, FIELD(segment, GROUP_STARTS));
        for (int64_t g = 0; g < FIELD(segment, FREE_GROUPS); g++)
            out = match_group(index, groups + at[GROUP_SIZE] * g, mine, keys, out);
        for (int64_t i = 0; i < count; i++) {
            int64_t column = entries[2 * i];
            if (column >= FIELD(segment, GROUP_COLUMNS)) continue;
            for (uint32_t g = starts[column]; g < starts[column + 1]; g++)
                out = match_group(index, groups + at[GROUP_SIZE] * g, mine, keys, out);
        }
    }
    out = match_recent(index, keys, out);
    if (FIELD(index, TOUCHED_COUNT)) clear_seen(index);
    for (int64_t i = 0; i < count; i++) {
        int64_t column = entries[2 * i];
        keys[column] = NAN;
        for (int64_t s = 0; s < snapshots; s++) codes[width * s + column] = ABSENT;
    }
    return out - start;
}

/* The entries of an event on their way: on the stack, or on the heap where they are many. */
typedef struct { char *data; size_t used, room; int64_t words[128]; } buffer;
#define HERE(buffer) ((char *)(buffer)->words)

static int append(buffer *to, const void *data, size_t size)
{
    if (to->used + size > to->room) {
        size_t room = 2 * (to->used + size);
        char *grown = PyMem_Realloc(to->data == HERE(to) ? NULL : to->data, room);
        if (!grown) { PyErr_NoMemory(); return -1; }
        if (to->data == HERE(to)) memcpy(grown, to->data, to->used);
        to->data = grown;
        to->room = room;
    }
    memcpy(to->data + to->used, data, size);
    to->used += size;
    return 0;
}

static int append_number(buffer *to, int64_t column, double number)
{
    char entry[16];
    memcpy(entry, &column, 8);
    memcpy(entry + 8, &number, 8);
    return append(to, entry, 16);
}

/* One attribute of an event: 0, -1 for an error, 1 where Python has to be asked and may not be. */
static int append_value(buffer *to, PyObject *known, PyObject *value, int may_ask)
{
    long long column = PyLong_AsLongLong(PyTuple_GET_ITEM(known, 0));
    if (column >= 0 && PyFloat_CheckExact(value)) {
        double number = PyFloat_AS_DOUBLE(value);
        return number == number ? append_number(to, column, number) : 0;
    }
    if (column >= 0 && PyLong_CheckExact(value)) {
        int overflow;
        long long integer = PyLong_AsLongLongAndOverflow(value, &overflow);
        if (!overflow) return append_number(to, column, (double)integer);
    }
    PyObject *packed = NULL;
    if (PyUnicode_CheckExact(value)) {
        packed = PyDict_GetItemWithError(PyTuple_GET_ITEM(known, 1), value);
        if (!packed && PyErr_Occurred()) return -1;
        Py_XINCREF(packed);
    }
    if (!packed) {
        if (!may_ask) return 1;
        Py_INCREF(known); /* the vocabulary may be given another one meanwhile */
        packed = PyObject_CallOneArg(PyTuple_GET_ITEM(known, 2), value);
        Py_DECREF(known);
        if (!packed) return -1;
    }
    int failed = -1;
    if (PyBytes_Check(packed))
        failed = append(to, PyBytes_AS_STRING(packed), (size_t)PyBytes_GET_SIZE(packed));
    else
        PyErr_SetString(PyExc_TypeError, "packed entries must be bytes");
    Py_DECREF(packed);
    return failed;
}

/* The attributes of an event one after the other; answers as append_value does. */
static int append_event(buffer *to, PyObject *event, PyObject *brief, int may_ask)
{
    Py_ssize_t position = 0;
    PyObject *name, *value;
    while (PyDict_Next(event, &position, &name, &value)) {
        if (!PyUnicode_CheckExact(name)) return 1; /* comparing it may run anybody's code */
        PyObject *known = PyDict_GetItemWithError(brief, name);
        int failed = known ? append_value(to, known, value, may_ask) : PyErr_Occurred() ? -1 : 0;
        if (failed) return failed;
    }
    return 0;
}

/* A copy of an event that nobody else can change, each name once and a plain str. */
static PyObject *own_copy(PyObject *event)
{
    PyObject *copy = PyDict_New(), *name, *value;
    Py_ssize_t position = 0;
    while (copy && PyDict_Next(event, &position, &name, &value)) {
        if (!PyUnicode_Check(name)) continue;
        PyObject *plain = PyUnicode_FromObject(name);
        if (!plain || PyDict_SetItem(copy, plain, value) < 0) Py_CLEAR(copy);
        Py_XDECREF(plain);
    }
    return copy;
}

/* spread(event, brief) -> the event's entries (column, key), packed
 *
 * brief: {name: (number column or -1 if the number is not all, {text: packed entries}, fallback)};
 * fallback(value) gives the packed entries of any other value, b"" for an absent one. It is Python
 * code, and during it other threads may run: so it is called for values of a copy only. */
static PyObject *spread(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    (void)self;
    if (nargs != 2 || !PyDict_Check(args[0]) || !PyDict_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "spread(event, brief)");
        return NULL;
    }
    buffer found;
    found.data = HERE(&found);
    found.used = 0;
    found.room = sizeof found.words;
    PyObject *copy = own_copy(args[0]);
    int failed = copy ? append_event(&found, copy, args[1], 1) : -1;
    Py_XDECREF(copy);
    PyObject *packed =
        failed ? NULL : PyBytes_FromStringAndSize(found.data, (Py_ssize_t)found.used);
    if (found.data != HERE(&found)) PyMem_Free(found.data);
    return packed;
}

/* find(entries, index, codes, keys, out): how many ids were written to out. No Python code runs
 * from here to the return, so that one set of codes, keys and ids is enough. */
static int64_t find(PyObject *const *args, Py_ssize_t nargs, uint32_t **out)
{
    if (nargs != 5 || !PyBytes_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "expected entries, index, codes, keys, out");
        return -1;
    }
    int64_t where[4];
    for (int i = 0; i < 4; i++) where[i] = PyLong_AsLongLong(args[1 + i]);
    if (PyErr_Occurred()) return -1;
    *out = AS(uint32_t, where[3]);
    return match_entries(AS(int64_t, where[0]), (const int64_t *)PyBytes_AS_STRING(args[0]),
                         PyBytes_GET_SIZE(args[0]) >> 4, AS(uint16_t, where[1]),
                         AS(double, where[2]), *out);
}

/* count(entries, index, codes, keys, out) -> how many ids were written to out */
static PyObject *count(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    (void)self;
    uint32_t *out;
    int64_t found = find(args, nargs, &out);
    return found < 0 ? NULL : PyLong_FromLongLong(found);
}

static PyObject *list_of(const uint32_t *out, int64_t found)
{
    uint32_t here[256], *ids = here;
    if (found > 256) ids = PyMem_Malloc(4 * (size_t)found);
    if (!ids) return PyErr_NoMemory();
    memcpy(ids, out, 4 * (size_t)found); /* a new list may collect garbage, and that run anything */
    PyObject *listed = PyList_New(found);
    for (int64_t i = 0; listed && i < found; i++) {
        PyObject *id = PyLong_FromUnsignedLong(ids[i]);
        if (!id) Py_CLEAR(listed);
        else PyList_SET_ITEM(listed, i, id);
    }
    if (ids != here) PyMem_Free(ids);
    return listed;
}

/* match(entries, index, codes, keys, out) -> the ids found, as a list */
static PyObject *match(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    (void)self;
    uint32_t *out;
    int64_t found = find(args, nargs, &out);
    return found < 0 ? NULL : list_of(out, found);
}

/* quick(event, brief, index, raw) -> the ids found, as a list or as raw bytes; None where somebody
 * is at work on the index, or where Python has to be asked about a value. It needs no lock: no
 * other thread runs. */
static PyObject *quick(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    (void)self;
    if (nargs != 4 || !PyDict_Check(args[0]) || !PyDict_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "quick(event, brief, index, raw)");
        return NULL;
    }
    int64_t *index = AS(int64_t, PyLong_AsLongLong(args[2]));
    if (PyErr_Occurred()) return NULL;
    if (!FIELD(index, READY)) Py_RETURN_NONE;
    buffer entries;
    entries.data = HERE(&entries);
    entries.used = 0;
    entries.room = sizeof entries.words;
    int failed = append_event(&entries, args[0], args[1], 0);
    uint32_t *out = AS(uint32_t, FIELD(index, SCRATCH_OUT));
    int64_t found = failed ? 0 : match_entries(
        index, (const int64_t *)(void *)entries.data, (int64_t)(entries.used >> 4),
        AS(uint16_t, FIELD(index, SCRATCH_CODES)), AS(double, FIELD(index, SCRATCH_KEYS)), out);
    if (entries.data != HERE(&entries)) PyMem_Free(entries.data);
    if (failed > 0) Py_RETURN_NONE;
    if (failed) return NULL;
    return args[3] == Py_True ? PyBytes_FromStringAndSize((const char *)out, 4 * found)
                              : list_of(out, found);
}

/* bury(segment, handle): see kernels.py */
static PyObject *bury(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    (void)self;
    if (nargs != 2) {
        PyErr_SetString(PyExc_TypeError, "bury(segment, handle)");
        return NULL;
    }
    table segment = AS(const int64_t, PyLong_AsLongLong(args[0]));
    int64_t handle = PyLong_AsLongLong(args[1]);
    if (PyErr_Occurred()) return NULL;
    const uint32_t *handles = AS(const uint32_t, FIELD(segment, HANDLES));
    const uint32_t *place = AS(const uint32_t, FIELD(segment, PLACES));
    const uint32_t *ids = AS(const uint32_t, FIELD(segment, FLAGGED));
    uint64_t *alive = AS(uint64_t, FIELD(segment, LIVE));
    int64_t count = FIELD(segment, HANDLE_COUNT), low = 0, high = count, found = 0, flags = 0;
    int64_t guess = count ? handle - handles[0] : 0; /* right if none was left out */
    if (0 < guess && guess < count && handles[guess] == handle && handles[guess - 1] < handle)
        low = high = guess;
    while (low < high) {
        int64_t middle = (low + high) >> 1;
        if (handles[middle] < handle) low = middle + 1; else high = middle;
    }
    for (; low < count && handles[low] == handle; low++) {
        uint64_t bit = 1ull << (place[low] & 63), *word = alive + (place[low] >> 6);
        if (*word & bit) {
            *word &= ~bit;
            if (ids) flags |= ids[place[low]] & (SHARED | OPAQUE);
            found++;
        }
    }
    return PyLong_FromLongLong(found | flags);
}

static PyObject *configure(PyObject *self, PyObject *fields)
{
    (void)self;
    if (!PyTuple_Check(fields) || PyTuple_GET_SIZE(fields) != FIELD_COUNT) {
        PyErr_Format(PyExc_ValueError, "expected %d fields", FIELD_COUNT);
        return NULL;
    }
    for (int i = 0; i < FIELD_COUNT; i++) {
        at[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(fields, i));
        if (PyErr_Occurred()) return NULL;
    }
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"configure", configure, METH_O, "Tell where the fields of the tables are."},
    {"spread", (PyCFunction)(void (*)(void))spread, METH_FASTCALL, "The entries of an event."},
    {"count", (PyCFunction)(void (*)(void))count, METH_FASTCALL, "Match entries; how many ids."},
    {"match", (PyCFunction)(void (*)(void))match, METH_FASTCALL, "Match entries; the ids."},
    {"quick", (PyCFunction)(void (*)(void))quick, METH_FASTCALL, "Match an event, or None."},
    {"bury", (PyCFunction)(void (*)(void))bury, METH_FASTCALL, "Clear a handle's live bits."},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_single", NULL, -1, methods,
                                    NULL, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit__single(void)
{
#ifdef WIDE
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512bw")) match_group = group_avx512;
    else if (__builtin_cpu_supports("avx2")) match_group = group_avx2;
#endif
    PyObject *created = PyModule_Create(&module);
    if (created && PyModule_AddIntConstant(created, "LAYOUT", LAYOUT) < 0) {
        Py_DECREF(created);
        return NULL;
    }
    return created;
}
