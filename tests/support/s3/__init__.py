"""A store of objects with the interface of S3, for tests."""
