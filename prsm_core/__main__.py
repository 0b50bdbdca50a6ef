"""`python -m prsm_core` is `prsm`."""

import sys

from prsm_core.cli import main

if __name__ == "__main__":
    sys.exit(main())
