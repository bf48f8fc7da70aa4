"""The yardstick: `pickle.loads` of every file of a folder, one after the other, and nothing else.

python -m benchmarks.loads FOLDER
"""

import pickle
import sys
from pathlib import Path

if __name__ == "__main__":
    for path in Path(sys.argv[1]).iterdir():
        pickle.loads(path.read_bytes())
