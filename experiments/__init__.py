"""Experiments: the tables and figures of the particle Gibbs BART paper, beside its numbers.

Each item is a module and a script of its own name with

``NAME``
    Stem of its files.
``specs(settings, profile)``
    The chains that it needs, a list of `chains.ChainSpec`; empty for figures 1 and 2 and table 3.
``make(store, settings, profile, folder)``
    Writes its files into `folder` from what the `store.Store` holds, and returns its text: the tables, or the caption
    of the figure. It never samples (figure 1 but for one small tree), and raises `store.MissingChains` where a chain
    is not stored.

`run_all` samples what is missing and makes all of them.
"""
