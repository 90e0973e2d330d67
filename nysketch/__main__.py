"""`python -m nysketch` is `nysketch`: where the program starts."""

from nysketch._support.signals import exit_with


def main() -> None:
    """Run the command line. It is loaded inside, where signals are looked after."""
    exit_with(_program)


def _program() -> int:
    from nysketch.cli import execute

    return execute()


if __name__ == "__main__":
    main()
