"""Lambda function `admin_api`: the HTTP API and the console."""
