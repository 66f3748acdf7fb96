"""Not shipped; makes the folders one tree to tools."""
