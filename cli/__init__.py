"""The command line and the local cloud: for development, never packed into a layer or a function."""
