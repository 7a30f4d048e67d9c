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

static PyObject *bits(PyObject *self, PyObject *const *words, Py_ssize_t count)
{
    (void)self;
    if (count < 1) {
        PyErr_SetString(PyExc_TypeError, "bits needs a key");
        return NULL;
    }
    uint64_t word = PyLong_AsUnsignedLongLongMask(words[0]);
    for (Py_ssize_t i = 1; i < count; i++)
        word = mix(word ^ PyLong_AsUnsignedLongLongMask(words[i]));
    if (PyErr_Occurred()) return NULL;
    return PyLong_FromUnsignedLongLong(mix(word));
}

static PyMethodDef methods[] = {
    {"bits", (PyCFunction)(void (*)(void))bits, METH_FASTCALL,
     "64 random bits: of a key, then counters."},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_chance", NULL, -1, methods,
                                    NULL, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit__chance(void) { return PyModule_Create(&module); }
