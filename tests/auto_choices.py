"""The samplers that "auto" stands for, by their texts: proofs take them from here, so that a changed one is proved."""

import bart
from bart.samplers.auto import CHOICES
from bart.samplers.compose import split_sampler

AUTO = {choice.sampler: bart.parse_sampler(choice.sampler) for choice in CHOICES}
# What they do to a single tree within a sweep; choices that differ between sweeps share it.
AUTO_STEPS = {bart.format_sampler(step): step for step, _ in map(split_sampler, AUTO.values())}
