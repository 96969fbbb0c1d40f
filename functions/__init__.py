"""One folder per Lambda function, with its handler and the code that only it uses."""
