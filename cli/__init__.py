"""The command line and the local cloud: never packaged into a layer or a function."""
