"""Timings of the samplers; ratios to a plain pass over the data where a number is to hold on other machines."""
