"""Compiled kernels: the exact mathematics of every sampler, callable without the interpreter lock."""
