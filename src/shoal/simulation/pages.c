/* Huge pages for Python objects: once this module is imported, CPython's arenas use pages of 2 MB.

A simulation of many nodes touches all its memory all the time. With pages of 4 KB, address
translation (TLB misses) then takes as long as the accesses themselves. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

#ifdef __linux__
#include <sys/mman.h>

#define PAGE ((size_t)2 << 20)
#define CHUNK (32 * PAGE)

static PyObjectArenaAllocator usual;
static char *chunk;
static size_t left; /* bytes of the chunk that no arena has yet; arenas are cut off its end */

static void *allocate_arena(void *context, size_t size)
{
    (void)context;
    if (size > PAGE || PAGE % size) return usual.alloc(usual.ctx, size);
    if (left < size) {
        char *found = mmap(NULL, CHUNK + PAGE, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (found == MAP_FAILED) return usual.alloc(usual.ctx, size);
        chunk = found + (PAGE - (uintptr_t)found % PAGE) % PAGE;
        madvise(chunk, CHUNK, MADV_HUGEPAGE);
        left = CHUNK;
    }
    left -= size;
    return chunk + left;
}
#endif

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_pages", NULL, -1, NULL};

PyMODINIT_FUNC PyInit__pages(void)
{
#ifdef __linux__
    PyObject_GetArenaAllocator(&usual);
    PyObjectArenaAllocator large = usual; /* freeing stays as it is: munmap, whoever mapped it */
    large.alloc = allocate_arena;
    PyObject_SetArenaAllocator(&large);
#endif
    return PyModule_Create(&module);
}
