"""The command line and the local cloud: not packaged into any layer or function."""
