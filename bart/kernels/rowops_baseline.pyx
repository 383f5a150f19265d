"""The loops over rows, compiled for the target "baseline"."""

include "rowops_body.pxi"
