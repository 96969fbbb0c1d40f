"""One package per Lambda function, with its handler and the code that no other function uses."""
