/* The kernels that lay lanes out and read them back, in C: see ordering.py and unfolding.py, which
 * do the same where this was not built. The numbers of the tables' fields are passed in once. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define BLOCK 64
#define MAX_KEYS 4
#define SAMPLE 32 /* as in ordering.py */
#define NEGATED 0x80000000u
#define UNBOUNDED 1

/* Positions in the tables, in the order of FIELDS in building.py. */
enum {
    CUTS, CUT_COUNT, CUT_CELLS, CUT_BASE, CUT_SCALE, CUT_LAST_CELL, CUT_SIZE,
    WIDTH, KEYS, EXACT, BOUNDS, IDS, SLOTS, SLOT_COUNT,
    RESIDUAL_START, RESIDUAL_COLUMNS, RESIDUAL_CODES, RESIDUAL_EXACT, FIELD_COUNT
};
static int64_t at[FIELD_COUNT];

#define AS(type, number) ((type *)(uintptr_t)(number))
#define ARRAY(type, name, place) type *name = (type *)a[place].data

static inline double as_double(int64_t bits) { double d; memcpy(&d, &bits, 8); return d; }
static inline int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }
static inline int64_t most(int64_t x, int64_t y) { return x > y ? x : y; }

static uint16_t code_of(double key, const int64_t *cuts)
{
    int64_t count = cuts[at[CUT_COUNT]];
    if (!count) return 2;
    double scaled = (key - as_double(cuts[at[CUT_BASE]])) * as_double(cuts[at[CUT_SCALE]]);
    int64_t last = cuts[at[CUT_LAST_CELL]], cell = 0;
    if (scaled >= (double)last) cell = last;
    else if (scaled > 0.0) cell = (int64_t)scaled;
    const uint16_t *cells = AS(const uint16_t, cuts[at[CUT_CELLS]]);
    const double *values = AS(const double, cuts[at[CUTS]]);
    int64_t low = cells[cell], high = cells[cell + 1];
    while (low < high) {
        int64_t middle = (low + high) >> 1;
        if (values[middle] < key) low = middle + 1; else high = middle;
    }
    return (uint16_t)(2 * low + (low < count && values[low] == key ? 3 : 2));
}

/* Kernels are called with arrays and integers. A kernel's *kinds* has one sign per argument: the
 * size of an array's elements in bytes, or 'i' for an integer. Arrays must be contiguous. */
#define MOST 17 /* arguments of a kernel */

typedef struct {
    void *data;
    int64_t shape[4];
    int64_t number;
} argument;

typedef struct {
    argument given[MOST];
    Py_buffer held[MOST];
    int count, buffers;
} arguments;

static void release(arguments *all)
{
    while (all->buffers) PyBuffer_Release(&all->held[--all->buffers]);
}

static int unpack_one(arguments *all, char kind, PyObject *value)
{
    argument *to = &all->given[all->count++];
    if (kind == 'i') {
        to->number = (int64_t)PyLong_AsUnsignedLongLongMask(value);
        return PyErr_Occurred() ? -1 : 0;
    }
    Py_buffer *view = &all->held[all->buffers];
    if (PyObject_GetBuffer(value, view, PyBUF_ND) < 0) return -1;
    all->buffers++;
    if (view->itemsize != kind - '0' || view->ndim > 4) {
        PyErr_Format(PyExc_TypeError, "argument %d: expected elements of %c bytes, got %zd",
                     all->count, kind, view->itemsize);
        return -1;
    }
    to->data = view->buf;
    for (int i = 0; i < view->ndim; i++) to->shape[i] = view->shape[i];
    return 0;
}

/* 0 and what is to be released, or -1 and nothing. */
static int unpack(arguments *all, const char *kinds, PyObject *const *args, Py_ssize_t nargs)
{
    all->count = all->buffers = 0;
    if (nargs != (Py_ssize_t)strlen(kinds)) {
        PyErr_Format(PyExc_TypeError, "expected arguments '%s'", kinds);
        return -1;
    }
    for (Py_ssize_t i = 0; i < nargs; i++)
        if (unpack_one(all, kinds[i], args[i]) < 0) {
            release(all);
            return -1;
        }
    return 0;
}

/* Defines py_NAME, which calls NAME(arguments) and returns its number. */
#define KERNEL(name, kinds)                                                                    \
    static PyObject *py_##name(PyObject *self, PyObject *const *args, Py_ssize_t nargs)        \
    {                                                                                          \
        (void)self;                                                                            \
        arguments all;                                                                         \
        if (unpack(&all, kinds, args, nargs) < 0) return NULL;                                 \
        int64_t found = name(all.given);                                                       \
        release(&all);                                                                         \
        return PyLong_FromLongLong(found);                                                     \
    }
#define METHOD(name) {#name, (PyCFunction)(void (*)(void))py_##name, METH_FASTCALL, NULL}

static int64_t code_bounds(argument *a)
{
    ARRAY(const uint32_t, columns, 0); ARRAY(const double, lows, 1); ARRAY(const double, highs, 2);
    const int64_t *snapshot = AS(const int64_t, a[3].number);
    ARRAY(uint16_t, low, 4); ARRAY(uint16_t, high, 5);
    for (int64_t i = 0; i < a[0].shape[0]; i++) {
        const int64_t *cuts = snapshot + at[CUT_SIZE] * (int64_t)(columns[i] & ~NEGATED);
        low[i] = lows[i] == -INFINITY ? UNBOUNDED : code_of(lows[i], cuts);
        high[i] = highs[i] == INFINITY ? (uint16_t)(2 * cuts[at[CUT_COUNT]] + 3)
                                       : code_of(highs[i], cuts);
    }
    return 0;
}
KERNEL(code_bounds, "488i22")

static int64_t choose_keys(argument *a)
{
    ARRAY(const uint32_t, start, 0); ARRAY(const uint32_t, columns, 1);
    ARRAY(const uint16_t, low, 2); ARRAY(const uint16_t, high, 3);
    ARRAY(const double, cut, 6); ARRAY(int32_t, chosen, 7);
    for (int64_t lane = a[4].number; lane < a[5].number; lane++) {
        int32_t *mine = chosen + MAX_KEYS * lane;
        for (int rank = 0; rank < MAX_KEYS; rank++) {
            int32_t best = -1;
            double width = 1e300;
            for (uint32_t i = start[lane]; i < start[lane + 1]; i++) {
                if (columns[i] >= NEGATED || cut[columns[i]] < 0) continue;
                int taken = 0;
                for (int earlier = 0; earlier < rank; earlier++)
                    taken |= mine[earlier] == (int32_t)i;
                double span = (double)((int64_t)high[i] - low[i] + 2) / (cut[columns[i]] + 1.0);
                if (!taken && span < width) { best = (int32_t)i; width = span; }
            }
            mine[rank] = best;
        }
    }
    return 0;
}
KERNEL(choose_keys, "4422ii84")

static int64_t sign(argument *a)
{
    ARRAY(const uint32_t, columns, 0); ARRAY(const int32_t, chosen, 1);
    ARRAY(const uint32_t, lanes, 2); ARRAY(uint64_t, signature, 4);
    int64_t level = a[3].number;
    for (int64_t i = 0; i < a[2].shape[0]; i++) {
        const int32_t *mine = chosen + MAX_KEYS * (int64_t)lanes[i];
        uint64_t found = 0, picked[MAX_KEYS];
        if (mine[level - 1] >= 0) {
            for (int64_t rank = 0; rank < level; rank++) {
                uint64_t column = (uint64_t)columns[mine[rank]] + 1;
                int64_t to = rank;
                for (; to > 0 && picked[to - 1] > column; to--) picked[to] = picked[to - 1];
                picked[to] = column;
            }
            for (int64_t rank = 0; rank < level; rank++) found = found << 16 | picked[rank];
        }
        signature[i] = found;
    }
    return 0;
}
KERNEL(sign, "444i8")

static int64_t gather(argument *a)
{
    ARRAY(const uint32_t, start, 0); ARRAY(const uint32_t, columns, 1);
    ARRAY(const uint16_t, low, 2); ARRAY(const uint16_t, high, 3);
    ARRAY(const uint32_t, lanes, 4); ARRAY(const uint32_t, keys, 5); ARRAY(uint16_t, out, 6);
    int64_t width = a[5].shape[0];
    for (int64_t i = 0; i < a[4].shape[0]; i++, out += 2 * width)
        for (uint32_t j = start[lanes[i]]; j < start[lanes[i] + 1]; j++)
            for (int64_t key = 0; key < width; key++)
                if (columns[j] == keys[key]) {
                    out[2 * key] = low[j];
                    out[2 * key + 1] = high[j];
                }
    return 0;
}
KERNEL(gather, "4422442")

static int64_t split(const uint16_t *bounds, int64_t width, const uint32_t *index, int64_t begin,
                     int64_t end, int64_t *dims)
{
    int64_t count = least(SAMPLE, end - begin), best = -1, pivot = 0;
    int64_t order[SAMPLE], values[SAMPLE];
    double best_cost = 1e300;
    for (int64_t dim = 0; dim < width; dim++) {
        for (int64_t i = 0; i < count; i++) {
            int64_t lane = index[begin + (end - begin) * i / count];
            int64_t value = bounds[width * lane + dim], to = i;
            for (; to > 0 && values[to - 1] > value; to--) {
                values[to] = values[to - 1];
                order[to] = order[to - 1];
            }
            values[to] = value;
            order[to] = lane;
        }
        if (values[0] == values[count - 1]) continue;
        double cost = 0.0;
        for (int half = 0; half < 2; half++) {
            double hull = 1.0, core = 1.0;
            for (int64_t key = 0; key < width / 2; key++) {
                int64_t outer_low = 65535, inner_high = 65535, outer_high = 0, inner_low = 0;
                for (int64_t i = count / 2 * half; i < (half ? count : count / 2); i++) {
                    const uint16_t *mine = bounds + width * order[i] + 2 * key;
                    outer_low = least(outer_low, mine[0]);
                    inner_low = most(inner_low, mine[0]);
                    outer_high = most(outer_high, mine[1]);
                    inner_high = least(inner_high, mine[1]);
                }
                hull *= (double)(outer_high - outer_low + 1) / 65536.0;
                core *= (double)most(inner_high - inner_low + 1, 0) / 65536.0;
            }
            cost += hull - core;
        }
        if (cost < best_cost) {
            best = dim;
            best_cost = cost;
            pivot = values[count / 2];
            if (values[0] == pivot) pivot++;
        }
    }
    dims[0] = best;
    dims[1] = pivot;
    return best;
}

static int64_t split_at(argument *a)
{
    return split(a[0].data, a[0].shape[1], a[1].data, a[2].number, a[3].number, a[4].data);
}
KERNEL(split_at, "24ii8")

static void divide(const uint16_t *bounds, int64_t width, uint32_t *index, int64_t low,
                   int64_t high, int64_t middle, int64_t dim)
{
    while (low < high) {
        uint16_t pivot = bounds[width * index[(low + high) >> 1] + dim];
        int64_t i = low, j = high;
        while (i <= j) {
            while (bounds[width * index[i] + dim] < pivot) i++;
            while (bounds[width * index[j] + dim] > pivot) j--;
            if (i <= j) {
                uint32_t other = index[i];
                index[i++] = index[j];
                index[j--] = other;
            }
        }
        if (middle <= j) high = j;
        else if (middle >= i) low = i;
        else return;
    }
}

static int64_t arrange(argument *a)
{
    ARRAY(const uint16_t, bounds, 0); ARRAY(uint32_t, index, 1);
    int64_t width = a[0].shape[1], stack[128][2], dims[2], depth = 1;
    stack[0][0] = a[2].number;
    stack[0][1] = a[3].number;
    while (depth > 0) {
        int64_t low = stack[--depth][0], high = stack[depth][1];
        if (high <= low || low / BLOCK == (high - 1) / BLOCK) continue;
        if (split(bounds, width, index, low, high, dims) < 0) continue;
        int64_t grain = high - low > BLOCK * 128 ? BLOCK * 64 : BLOCK;
        int64_t middle = ((low + high) / 2 + grain / 2) / grain * grain;
        if (middle <= low || middle >= high) middle = low / BLOCK * BLOCK + BLOCK;
        divide(bounds, width, index, low, high - 1, middle, dims[0]);
        stack[depth][0] = low;
        stack[depth++][1] = middle;
        stack[depth][0] = middle;
        stack[depth++][1] = high;
    }
    return 0;
}
KERNEL(arrange, "24ii")

static int64_t part(argument *a)
{
    ARRAY(const uint16_t, bounds, 0); ARRAY(const uint32_t, index, 1);
    ARRAY(const int64_t, dims, 4); ARRAY(uint32_t, spare, 5); ARRAY(int64_t, ends, 6);
    int64_t width = a[0].shape[1], left = ends[0], right = ends[1];
    for (int64_t i = a[2].number; i < a[3].number; i++) {
        if (bounds[width * index[i] + dims[0]] < dims[1]) spare[left++] = index[i];
        else spare[--right] = index[i];
    }
    ends[0] = left;
    ends[1] = right;
    return 0;
}
KERNEL(part, "24ii848")

static int64_t fill_blocks(argument *a)
{
    ARRAY(const uint16_t, bounds, 0); ARRAY(const uint32_t, index, 1);
    ARRAY(const uint32_t, lanes, 2); ARRAY(const uint32_t, ids, 3);
    int64_t first = a[4].number, last = a[5].number, plain = a[6].number, base = a[7].number;
    ARRAY(uint16_t, grid, 8); ARRAY(uint16_t, zones, 9); ARRAY(uint16_t, supers, 10);
    ARRAY(uint32_t, out_ids, 11); ARRAY(uint64_t, alive, 12); ARRAY(uint32_t, place, 13);
    int64_t width = a[0].shape[1] / 2, total = a[1].shape[0], page = a[9].shape[3];
    for (int64_t block = first; block < last; block++) {
        int64_t chunk = block / 64, bit = block % 64, size = least(BLOCK, total - block * BLOCK);
        const uint32_t *here = index + block * BLOCK;
        for (int64_t lane = 0; lane < size; lane++) {
            uint32_t from = lanes[here[lane]];
            out_ids[block * BLOCK + lane] = ids[from];
            place[from] = (uint32_t)((base + block) * BLOCK + lane);
            alive[block] |= 1ull << lane;
        }
        for (int64_t key = 0; key < width; key++) {
            int64_t outer_low = 65535, inner_high = 65535, outer_high = 0, inner_low = 0;
            uint16_t *to = grid + 2 * BLOCK * (width * block + key);
            for (int64_t lane = 0; lane < size; lane++) {
                const uint16_t *mine = bounds + 2 * (width * here[lane] + key);
                int64_t low = mine[0], high = mine[1];
                to[lane] = mine[0];
                to[BLOCK + lane] = mine[1];
                outer_low = least(outer_low, low);
                outer_high = most(outer_high, high);
                inner_low = most(inner_low, low + 1 - low % 2); /* an even code is not exact */
                inner_high = least(inner_high, high - 1 + high % 2);
            }
            if (!plain) { inner_low = 65535; inner_high = 0; } /* never take such a block whole */
            uint16_t *zone = zones + 4 * page * (width * chunk + key) + bit;
            zone[0] = (uint16_t)outer_low;
            zone[page] = (uint16_t)outer_high;
            zone[2 * page] = (uint16_t)inner_low;
            zone[3 * page] = (uint16_t)inner_high;
            uint16_t *super = supers + 128 * (width * (chunk / 64) + key) + chunk % 64;
            super[0] = (uint16_t)least(super[0], outer_low);
            super[64] = (uint16_t)most(super[64], outer_high);
        }
    }
    return 0;
}
KERNEL(fill_blocks, "2444iiii222484")

static int64_t fill_exact(argument *a)
{
    ARRAY(const uint32_t, start, 0); ARRAY(const uint32_t, columns, 1);
    ARRAY(const double, lows, 2); ARRAY(const double, highs, 3);
    ARRAY(const uint32_t, lanes, 4); ARRAY(const uint32_t, index, 5); ARRAY(double, exact, 9);
    for (int64_t position = a[6].number; position < a[7].number; position++) {
        uint32_t lane = lanes[index[position]];
        for (uint32_t i = start[lane]; i < start[lane + 1]; i++)
            if (columns[i] == (uint64_t)a[8].number) {
                exact[2 * position] = lows[i];
                exact[2 * position + 1] = highs[i];
            }
    }
    return 0;
}
KERNEL(fill_exact, "448844iii8")

static double rank_of(uint32_t column, uint16_t low, uint16_t high, const double *cut)
{
    double share = (double)((int64_t)high - low + 2) / (cut[column & ~NEGATED] + 1.0);
    return column >= NEGATED ? share + 1e6 : share;
}

static int is_key(uint32_t column, const uint32_t *keys, int64_t width)
{
    int found = 0;
    for (int64_t key = 0; key < width; key++) found |= column == keys[key];
    return found;
}

static int64_t pick_residuals(argument *a)
{
    ARRAY(const uint32_t, start, 0); ARRAY(const uint32_t, columns, 1);
    ARRAY(const uint16_t, low, 2); ARRAY(const uint16_t, high, 3);
    ARRAY(const uint32_t, lanes, 4); ARRAY(const uint32_t, index, 5);
    ARRAY(const uint32_t, keys, 8); ARRAY(const double, cut, 9);
    ARRAY(int32_t, picked, 10); ARRAY(uint32_t, counts, 11);
    int64_t width = a[8].shape[0], slots = a[10].shape[1];
    for (int64_t position = a[6].number; position < a[7].number; position++) {
        uint32_t lane = lanes[index[position]];
        int32_t *mine = picked + slots * position;
        if (start[lane + 1] - start[lane] == width) { /* there is nothing beside the keys */
            for (int64_t slot = 0; slot < slots; slot++) mine[slot] = -1;
            continue;
        }
        for (int64_t slot = 0; slot < slots; slot++) {
            int64_t best = -1, count = 0;
            for (int64_t i = start[lane]; i < start[lane + 1]; i++) {
                int kept = !is_key(columns[i], keys, width);
                for (int64_t earlier = 0; earlier < slot; earlier++) kept &= mine[earlier] != i;
                if (!kept) continue;
                count++;
                if (low[i] & 1 && high[i] & 1 && low[i] <= high[i]
                    && (best < 0 || rank_of(columns[i], low[i], high[i], cut)
                                        < rank_of(columns[best], low[best], high[best], cut)))
                    best = i;
            }
            mine[slot] = (int32_t)best;
            counts[position + 1] = (uint32_t)(count - (best >= 0));
        }
    }
    return 0;
}
KERNEL(pick_residuals, "442244ii4844")

static int64_t fill_slots(argument *a)
{
    ARRAY(const uint32_t, columns, 0); ARRAY(const uint16_t, low, 1);
    ARRAY(const uint16_t, high, 2); ARRAY(const int32_t, picked, 5); ARRAY(uint16_t, slots, 6);
    int64_t held = a[5].shape[1], count = a[6].shape[2];
    for (int64_t position = a[3].number; position < a[4].number; position++)
        for (int64_t slot = 0; slot < count; slot++) {
            int32_t i = picked[held * position + slot];
            int64_t column = 0, lower = 0, width = 65535;
            if (i >= 0) {
                column = columns[i] & ~NEGATED;
                lower = low[i];
                width = (int64_t)high[i] - low[i];
                if (columns[i] >= NEGATED) { /* all other codes, around the end */
                    width = (lower - high[i] - 2) & 65535;
                    lower = (int64_t)high[i] + 1;
                }
            }
            uint16_t *to = slots + 3 * (count * position + slot);
            to[0] = (uint16_t)column;
            to[1] = (uint16_t)lower;
            to[2] = (uint16_t)width;
        }
    return 0;
}
KERNEL(fill_slots, "422ii42")

static int64_t fill_residuals(argument *a)
{
    ARRAY(const uint32_t, start, 0); ARRAY(const uint32_t, columns, 1);
    ARRAY(const double, lows, 2); ARRAY(const double, highs, 3);
    ARRAY(const uint16_t, low, 4); ARRAY(const uint16_t, high, 5);
    ARRAY(const uint32_t, lanes, 6); ARRAY(const uint32_t, index, 7);
    ARRAY(const uint32_t, keys, 10); ARRAY(const double, cut, 11); ARRAY(const int32_t, picked, 12);
    ARRAY(const uint32_t, out_start, 13); ARRAY(uint32_t, out_columns, 14);
    ARRAY(uint16_t, out_codes, 15); ARRAY(double, out_exact, 16);
    int64_t width = a[10].shape[0], slots = a[12].shape[1];
    for (int64_t position = a[8].number; position < a[9].number; position++) {
        uint32_t lane = lanes[index[position]];
        int64_t first = out_start[position], count = 0;
        for (int64_t i = start[lane]; i < start[lane + 1]; i++) {
            int kept = !is_key(columns[i], keys, width);
            for (int64_t slot = 0; slot < slots; slot++) kept &= picked[slots * position + slot] != i;
            if (!kept) continue;
            int64_t to = first + count++;
            double span = rank_of(columns[i], low[i], high[i], cut);
            for (; to > first && span < rank_of(out_columns[to - 1], out_codes[2 * to - 2],
                                                out_codes[2 * to - 1], cut); to--) {
                out_columns[to] = out_columns[to - 1];
                memcpy(out_codes + 2 * to, out_codes + 2 * to - 2, 2 * sizeof *out_codes);
                memcpy(out_exact + 2 * to, out_exact + 2 * to - 2, 2 * sizeof *out_exact);
            }
            out_columns[to] = columns[i];
            out_codes[2 * to] = low[i];
            out_codes[2 * to + 1] = high[i];
            out_exact[2 * to] = lows[i];
            out_exact[2 * to + 1] = highs[i];
        }
    }
    return 0;
}
KERNEL(fill_residuals, "44882244ii4844428")

static int64_t scatter(argument *a)
{
    ARRAY(const int32_t, group_of, 0); ARRAY(int64_t, offsets, 3); ARRAY(uint32_t, lanes, 4);
    for (int64_t lane = a[1].number; lane < a[2].number; lane++)
        lanes[offsets[group_of[lane]]++] = (uint32_t)lane;
    return 0;
}
KERNEL(scatter, "4ii84")

static int64_t survey(argument *a)
{
    ARRAY(const uint32_t, place, 0); ARRAY(const int64_t, groups, 1);
    ARRAY(const uint32_t, block_group, 2); ARRAY(int32_t, counts, 7);
    const uint64_t *alive = AS(const uint64_t, a[4].number);
    for (int64_t i = a[5].number; i < a[6].number; i++) {
        int64_t position = place[i];
        counts[i] = -1;
        if (!(alive[position >> 6] >> (position & 63) & 1)) continue;
        const int64_t *row = groups + a[1].shape[1] * block_group[position / BLOCK];
        int64_t inside = position - (row[at[IDS]] - a[3].number) / 4, slots = row[at[SLOT_COUNT]];
        const uint16_t *slot = AS(const uint16_t, row[at[SLOTS]]) + 3 * slots * inside;
        counts[i] = (int32_t)row[at[WIDTH]];
        for (int64_t j = 0; j < slots; j++) counts[i] += slot[3 * j + 2] != 65535;
        if (row[at[RESIDUAL_START]]) {
            const uint32_t *starts = AS(const uint32_t, row[at[RESIDUAL_START]]) + inside;
            counts[i] += (int32_t)(starts[1] - starts[0]);
        }
    }
    return 0;
}
KERNEL(survey, "484iiii4")

/* The bound behind a code. */
static double value_of(int64_t code, const int64_t *cuts, const double *exact)
{
    if (code == UNBOUNDED) return -INFINITY;
    if (code == 2 * cuts[at[CUT_COUNT]] + 3) return INFINITY;
    if (code & 1) return AS(const double, cuts[at[CUTS]])[(code - 3) / 2];
    return *exact;
}

static int64_t unfold(argument *a)
{
    ARRAY(const uint32_t, place, 0); ARRAY(const int64_t, groups, 1);
    ARRAY(const uint32_t, block_group, 2); ARRAY(const uint32_t, chosen, 4);
    ARRAY(const uint32_t, start, 6); ARRAY(uint32_t, columns, 7);
    ARRAY(double, low, 8); ARRAY(double, high, 9); ARRAY(uint32_t, out_ids, 10);
    const int64_t *snapshot = AS(const int64_t, a[3].number);
    const uint32_t *ids = AS(const uint32_t, a[5].number);
    for (int64_t i = 0; i < a[4].shape[0]; i++) {
        int64_t position = place[chosen[i]], to = start[i];
        const int64_t *row = groups + a[1].shape[1] * block_group[position / BLOCK];
        int64_t inside = position - (row[at[IDS]] - a[5].number) / 4;
        int64_t block = inside / BLOCK, lane = inside % BLOCK, width = row[at[WIDTH]];
        out_ids[i] = ids[position];
        for (int64_t key = 0; key < width; key++, to++) {
            int64_t column = row[at[KEYS] + key];
            const int64_t *cuts = snapshot + at[CUT_SIZE] * column;
            const uint16_t *bounds =
                AS(const uint16_t, row[at[BOUNDS]]) + 2 * BLOCK * (width * block + key) + lane;
            const double *exact = AS(const double, row[at[EXACT] + key] + 16 * inside);
            columns[to] = (uint32_t)column;
            low[to] = value_of(bounds[0], cuts, exact);
            high[to] = value_of(bounds[BLOCK], cuts, exact + 1);
        }
        for (int64_t j = 0; j < row[at[SLOT_COUNT]]; j++) {
            const uint16_t *slot =
                AS(const uint16_t, row[at[SLOTS]]) + 3 * (row[at[SLOT_COUNT]] * inside + j);
            int64_t lower = slot[1], upper = lower + slot[2];
            if (slot[2] == 65535) continue;
            const int64_t *cuts = snapshot + at[CUT_SIZE] * slot[0];
            columns[to] = slot[0];
            if (upper > 65535) { /* a negated predicate wraps around */
                int64_t wrapped = (upper + 1) & 65535;
                upper = lower - 1;
                lower = wrapped;
                columns[to] |= NEGATED;
            }
            low[to] = value_of(lower, cuts, NULL);
            high[to++] = value_of(upper, cuts, NULL);
        }
        if (!row[at[RESIDUAL_START]]) continue;
        const uint32_t *starts = AS(const uint32_t, row[at[RESIDUAL_START]]) + inside;
        for (int64_t j = starts[0]; j < starts[1]; j++, to++) {
            uint32_t flagged = AS(const uint32_t, row[at[RESIDUAL_COLUMNS]])[j];
            const int64_t *cuts = snapshot + at[CUT_SIZE] * (int64_t)(flagged & ~NEGATED);
            const uint16_t *codes = AS(const uint16_t, row[at[RESIDUAL_CODES]]) + 2 * j;
            const double *exact = AS(const double, row[at[RESIDUAL_EXACT]] + 16 * j);
            columns[to] = flagged;
            low[to] = value_of(codes[0], cuts, exact);
            high[to] = value_of(codes[1], cuts, exact + 1);
        }
    }
    return 0;
}
KERNEL(unfold, "484i4i44884")

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
    METHOD(code_bounds), METHOD(choose_keys), METHOD(sign), METHOD(gather), METHOD(split_at),
    METHOD(arrange), METHOD(part), METHOD(fill_blocks), METHOD(fill_exact),
    METHOD(pick_residuals), METHOD(fill_slots), METHOD(fill_residuals), METHOD(scatter),
    METHOD(survey), METHOD(unfold), {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_building", NULL, -1, methods,
                                    NULL, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit__building(void) { return PyModule_Create(&module); }
