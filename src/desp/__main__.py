"""``python -m desp``, as `accelerate launch -m desp` needs it."""

from desp.cli import main

if __name__ == "__main__":
    main()
