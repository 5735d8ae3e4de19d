"""What component authors build on, and the vocabulary that all parts share.

Import the names from ``pipeline`` itself; the modules here are split by subject so that
none of them costs the import of torch to those who do not touch tensors.
"""
