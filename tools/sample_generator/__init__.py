"""Sample documents with their truth, made from a seed, for the demo and for end-to-end tests.

`generate(seed)` returns a `Sample`; `Sample.write(folder)` puts its files and `truth.json` on disk.
"""

from tools.sample_generator.sample import FileTruth, Sample, SampleFile, TrueLink
from tools.sample_generator.scenario import generate

__all__ = ["FileTruth", "Sample", "SampleFile", "TrueLink", "generate"]
