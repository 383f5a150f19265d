"""Random numbers from a numpy bit generator, without the interpreter."""

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid
from numpy.random cimport bitgen_t
from numpy.random.c_distributions cimport random_standard_gamma, random_standard_normal


cdef double normal(bitgen_t* rng) noexcept nogil:
    """N(0, 1)."""
    return random_standard_normal(rng)


cdef double gamma(double shape, bitgen_t* rng) noexcept nogil:
    """Gamma(shape, 1)."""
    return random_standard_gamma(rng, shape)


cdef bitgen_t* bitgen_of(object generator) except NULL:
    """The C interface of a numpy.random.Generator; valid while the generator lives."""
    bit_generator = getattr(generator, "bit_generator", None)
    capsule = getattr(bit_generator, "capsule", None)
    if capsule is None or not PyCapsule_IsValid(capsule, "BitGenerator"):
        raise TypeError(f"rng must be a numpy.random.Generator, got {type(generator).__name__}")
    return <bitgen_t*>PyCapsule_GetPointer(capsule, "BitGenerator")
