"""The routes of the API: path, parameters and answers of each, by what they are about."""
