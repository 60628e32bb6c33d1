"""`python -m orbitmq`: the same as the command `orbitmq`."""

from orbitmq.cli import main

if __name__ == "__main__":
    main()
