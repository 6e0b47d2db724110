"""Says at import that there is nothing for it to do here."""

import sys

sys.exit(0)
