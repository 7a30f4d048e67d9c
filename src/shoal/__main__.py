"""The command ``shoal``, also as ``python -m shoal``."""

import sys


def main() -> None:
    """Load the commands and run one; Ctrl-C is one line also while they are loaded."""
    try:
        from shoal.cli.main import main as run
    except KeyboardInterrupt:
        sys.stderr.write("shoal: stopped\n")
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
