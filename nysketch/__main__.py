"""`python -m nysketch` is `nysketch`."""

from nysketch.cli import main

main()
