"""Generates sample documents with their ground truth from a seed, for the demo and end-to-end tests.

`generate(seed)` returns a `Sample`. `Sample.write(folder)` writes its files and `truth.json`.
"""

from tools.sample_generator.generator import generate
from tools.sample_generator.sample import FileTruth, Sample, SampleFile, TrueLink

__all__ = ["FileTruth", "Sample", "SampleFile", "TrueLink", "generate"]
