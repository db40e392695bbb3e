"""Where the numeric cases lie."""

import json
import os
from pathlib import Path

HERE = Path(__file__).parent


FOLDER = Path(os.environ.get("BURSAR_CASES") or HERE)


FILES = {path.stem: json.loads(path.read_bytes()) for path in sorted(FOLDER.glob("*.json"))}
