"""``python -m pipeline``: the same as the console script."""

from pipeline.cli.main import main

if __name__ == "__main__":
    main()
