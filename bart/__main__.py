"""``python -m bart``: see `bart.cli`."""

import sys

from .cli import main

sys.exit(main())
