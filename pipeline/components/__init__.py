"""The built-in components: entry points like anyone's, building on ``pipeline.api`` alone."""
