"""What ``pipeline verify`` does: trials of the user's own config, and what their evidence tells."""
