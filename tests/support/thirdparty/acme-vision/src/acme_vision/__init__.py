"""Components for vision; each module is imported only where a config names something in it."""
