"""The loops over rows, compiled for the target "avx2"."""

include "rowops_body.pxi"
