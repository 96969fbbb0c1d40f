"""Generates sample documents with their ground truth from a seed.

The demo and the end-to-end tests use them. `generate(seed)` returns a `Sample`. `Sample.write(folder)` writes its files
and `truth.json`.
"""

from tools.sample_generator.generator import generate
from tools.sample_generator.sample import FileTruth, Sample, SampleFile, TrueLink

__all__ = ["FileTruth", "Sample", "SampleFile", "TrueLink", "generate"]
