"""One folder for each Lambda function: its handler, and the behaviour that only it has."""
