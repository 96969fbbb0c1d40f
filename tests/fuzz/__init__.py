"""Every parser that reads foreign bytes, fed with bytes that a fuzzer makes up."""
