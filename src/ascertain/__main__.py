"""`python -m ascertain` is the command `ascertain`."""

from ascertain.cli import main

if __name__ == "__main__":
    main()
