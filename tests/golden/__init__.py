"""Regression records: effective sample sizes and trace hashes of fixed runs, and the program that compares them.

Every number in `ess.json` and `hashes.json` was printed by this package itself. They say that the samplers still do
what they did when the files were written, and nothing about whether that was right. (`tiny_posteriors.json` is of
another kind: an independent program enumerated it.)
"""
