"""Experiments: the tables and figures of the particle Gibbs BART paper, beside its numbers."""
