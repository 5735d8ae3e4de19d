"""Built-in orders of the training samples."""
