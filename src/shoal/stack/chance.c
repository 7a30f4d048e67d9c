/* Splitmix64 in C: see chance.py, which does the same where this was not built. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

static inline uint64_t mix(uint64_t word)
{
    word += 0x9E3779B97F4A7C15u;
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9u;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBu;
    return word ^ (word >> 31);
}

/* 64 random bits, of a key and counters. */
static uint64_t draw(PyObject *const *words, Py_ssize_t count)
{
    if (count < 1) {
        PyErr_SetString(PyExc_TypeError, "a draw needs a key");
        return 0;
    }
    uint64_t word = PyLong_AsUnsignedLongLongMask(words[0]);
    for (Py_ssize_t i = 1; i < count; i++)
        word = mix(word ^ PyLong_AsUnsignedLongLongMask(words[i]));
    return mix(word);
}

static PyObject *bits(PyObject *self, PyObject *const *words, Py_ssize_t count)
{
    (void)self;
    uint64_t drawn = draw(words, count);
    return PyErr_Occurred() ? NULL : PyLong_FromUnsignedLongLong(drawn);
}

static PyObject *below(PyObject *self, PyObject *const *words, Py_ssize_t count)
{
    (void)self;
    uint64_t drawn = draw(words + 1, count - 1);
    if (PyErr_Occurred()) return NULL;
    unsigned __int128 limit = PyLong_AsUnsignedLongLong(words[0]);
    return PyErr_Occurred() ? NULL : PyLong_FromUnsignedLongLong((uint64_t)(drawn * limit >> 64));
}

static PyMethodDef methods[] = {
    {"bits", (PyCFunction)(void (*)(void))bits, METH_FASTCALL,
     "64 random bits: of a key, then counters."},
    {"below", (PyCFunction)(void (*)(void))below, METH_FASTCALL,
     "A whole number below a limit: of this, a key, then counters."},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_chance", NULL, -1, methods,
                                    NULL, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit__chance(void) { return PyModule_Create(&module); }
