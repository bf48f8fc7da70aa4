"""``python -m whichrank``: the same as the console script."""

from whichrank.surfaces.cli import main

if __name__ == "__main__":
    main()
